"""How the folders of runs-0.1 were made, with version 0.1.0: a record, not to be run again.

They stand for what users have on their disks, so later versions read them and never renew them.
"""

import json
import os
import shutil
import subprocess
import sys
from contextlib import chdir, suppress
from functools import wraps
from itertools import count
from pathlib import Path

os.environ["OMP_NUM_THREADS"] = "1"

import numpy as np
import torch
from torch import nn

import nonneg
from nonneg.data import ArrayData, load

FOLDER = Path(__file__).parent / "runs-0.1"
SMALL = (
    "encoder.backbone.width=4",
    "encoder.projector.hidden=[16]",
    "encoder.projector.n_features=32",
    "training.epochs=3",
    "training.warmup_epochs=1",
)
# Settings that later versions call otherwise.
RENAMED = (
    "loss.hidden_weight=0.25",
    "training.anchor_at=0.5",
    "training.keep_angles=true",
    "training.max_on_rate=0.2",
)
SUPERVISED = ("task=supervised", "loss.name=nonneg_ce", "reads=features")
FIT = (
    "n_components=24",
    "hidden=16",
    "batch_size=64",
    "max_steps=80",
    "target_active=3",
    "max_active=4",
)
N_KINDS, N_EACH = 6, 30
WORDS = ("apple", "boat", "cloud", "drum", "engine", "forest")


def command(*arguments):
    subprocess.run([sys.executable, "-m", "nonneg", *arguments], check=True)


def settings(*assignments):
    return [part for assignment in assignments for part in ("--set", assignment)]


def vectors(seed, n_columns, kinds):
    directions = np.random.default_rng(n_columns).standard_normal((N_KINDS, n_columns))
    noise = np.random.default_rng(seed).standard_normal((len(kinds), n_columns))
    return (directions[kinds] + 0.4 * noise).astype(np.float32)


def own_backbone():
    return nn.Sequential(nn.Linear(12, 8), nn.ReLU())


def two_noisy_copies(batch):
    noise = 0.1 * batch.draws.normal(24)
    return batch.inputs + noise[:, :12], batch.inputs + noise[:, 12:]


def failing(pairs):
    """The same pairs under the same name, which fail in the second epoch."""
    batches = count()

    @wraps(pairs)
    def fail_later(batch):
        if next(batches) == 13:
            raise InterruptedError
        return pairs(batch)

    return fail_later


def trained_runs():
    command("train", "digits", *settings(*SMALL), "--out", "digits-ncl")
    command("train", "digits-cl", *settings(*SMALL), "--out", "digits-cl")
    command("train", "digits", *settings(*SMALL, *RENAMED), "--out", "digits-renamed")
    command("train", "digits", *settings(*SMALL, *SUPERVISED), "--out", "digits-supervised")
    for run in ("digits-ncl", "digits-cl", "digits-renamed"):
        command("evaluate", run)
    command("evaluate", "digits-supervised", "--only", "properties,classification,probe")


def fitted_run():
    command("fit", "vectors.npy", "--labels", "kinds.npy", *settings(*FIT), "--out", "vectors-ncl")
    command("evaluate", "vectors-ncl")
    # A path of this machine would lead nowhere on another: those of the copy start in its folder.
    path = Path("vectors-ncl/run.json")
    record = json.loads(path.read_text())
    for key in ("vectors", "labels"):
        record["settings"]["data"][key] = f"{key.replace('labels', 'kinds')}.npy"
    path.write_text(json.dumps(record, indent=2) + "\n")


def saved_from_python(X, y, kinds):
    texts = [f"the {WORDS[kind]} of day {i % 7}" for i, kind in enumerate(kinds)]
    ncl = nonneg.NCL(24, hidden=16, batch_size=64, max_steps=60, random_state=0).fit(X)
    ncl.describe(X, texts=texts)
    ncl.save("ncl")
    both = nonneg.CrossNCL(
        24, hidden=16, batch_size=64, max_steps=60, noise=0.3, temperature=0.2, target_active=4,
        random_state=0,
    ).fit(X, y, groups=kinds)  # fmt: skip
    both.describe(X, y, texts=texts)
    both.save("cross")
    torch.manual_seed(0)
    described = {
        "backbone": {"name": "mlp", "hidden": [16, 8], "norm": "layer"},
        "projector": {"hidden": [], "n_features": 24, "input_norm": "layer"},
        "nonnegative": "rep_relu",
        "gate": {"prior": 0.7, "weight": 1e-4},
    }
    nonneg.Encoder(nonneg.EncoderSettings.read(described), (12,)).save("encoder")
    projector = {"hidden": [16], "n_features": 24}
    own = nonneg.EncoderSettings.read({"frozen": True, "projector": projector})
    config = nonneg.TrainConfig.read({"training": {"epochs": 2, "batch_size": 60}})
    data = ArrayData(torch.from_numpy(X))
    for out, pairs in (("python", two_noisy_copies), ("python-begun", failing(two_noisy_copies))):
        torch.manual_seed(0)
        encoder = nonneg.Encoder(own, (12,), backbone=own_backbone())
        with suppress(InterruptedError):
            nonneg.train(encoder, data, pairs, config, out=out)


def outputs(X, y):
    """What each folder gives in version 0.1, as arrays."""
    images = load("digits", split="test").fetch(torch.arange(40))
    found = {}
    for name in ("digits-ncl", "digits-cl", "digits-renamed", "digits-supervised"):
        found |= encoded(name, nonneg.Encoder.load(name), images)
    found |= encoded("encoder", nonneg.Encoder.load("encoder"), torch.from_numpy(X))
    own = nonneg.Encoder.load("python", backbone=own_backbone())
    found |= encoded("python", own, torch.from_numpy(X))
    found["ncl.features"] = nonneg.NCL.load("ncl").transform(X)
    found["vectors-ncl.features"] = nonneg.NCL.load("vectors-ncl").transform(X)
    both = nonneg.CrossNCL.load("cross")
    found["cross.features"], found["cross.of_y"] = both.transform(X, y)
    return found


def encoded(name, encoder, samples):
    parts = encoder.encode(samples)
    return {f"{name}.{part}": getattr(parts, part).numpy() for part in ("hidden", "features")}


def make():
    if nonneg.__version__ != "0.1.0" or FOLDER.exists():
        raise SystemExit(f"{FOLDER} is a record of version 0.1.0: it is made once")
    torch.set_num_threads(1)
    FOLDER.mkdir()
    kinds = np.repeat(np.arange(N_KINDS), N_EACH)
    X, y = vectors(1, 12, kinds), vectors(2, 8, kinds)
    with chdir(FOLDER):
        for name, array in {"vectors": X, "partners": y, "kinds": kinds}.items():
            np.save(f"{name}.npy", array)
        trained_runs()
        fitted_run()
        saved_from_python(X, y, kinds)
        for config in Path().glob("*/config.json"):  # finished: no checkpoint is needed
            shutil.rmtree(config.parent / "checkpoints", ignore_errors=True)
        np.savez_compressed("outputs.npz", **outputs(X, y))


if __name__ == "__main__":
    make()
