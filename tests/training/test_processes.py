"""Two processes with half a batch each train the same encoder as one process with the whole."""

import json
import shutil
import subprocess
import sys
import textwrap

import pytest
import torch
from forking import KILLED, Forked, run_forked
from torch.distributed import TCPStore

from nonneg import Encoder, info_nce
from nonneg.losses import gathered
from nonneg.training import read_history

# Norms without batch statistics, and float64: what is left is the loss and its gathering.
SETTINGS = [
    "data.n_train=320",
    "training.batch_size=64",
    "encoder.backbone.width=8",
    "encoder.backbone.norm=group",
    "encoder.projector.norm=layer",
    "encoder.projector.hidden=[32]",
    "encoder.projector.n_features=32",
    "loss.backbone_weight=1",
    "encoder.projector.input_norm=layer",
    "training.reinit_at=0.5",
    "training.keep_angles=true",
    "training.max_on_rate=0.2",
    "training.epochs=3",
    "training.warmup_epochs=1",
    "training.accelerator=cpu",
    "training.precision=64-true",
]


TIMINGS = ("seconds", "images_per_second")

pytestmark = pytest.mark.skipif(
    not torch.distributed.is_gloo_available(), reason="torch was built without gloo"
)

# Runs nonneg, and kills a process with SIGKILL after its n-th step, the first time only.
KILLING = textwrap.dedent(
    """
    import os, signal, sys
    import nonneg.training.trainer as loop
    from nonneg.cli import main

    n, rank = int(sys.argv.pop(1)), sys.argv.pop(1)
    step, count = loop._step, 0

    def deadly(run):
        global count
        step(run)
        count += 1
        is_first_try = os.environ.get("TORCHELASTIC_RESTART_COUNT", "0") == "0"
        if count == n and os.environ.get("RANK", "0") == rank and is_first_try:
            os.kill(os.getpid(), signal.SIGKILL)

    loop._step = deadly
    main()
    """
)


# Runs nonneg, once for each list of arguments.
COMMANDS = textwrap.dedent(
    """
    import json, sys
    from nonneg.cli import main

    for arguments in json.loads(sys.argv[1]):
        sys.argv = ["nonneg", *arguments]
        try:
            main()
        except SystemExit as ended:
            if ended.code:
                raise
    """
)


def train_command(out, *more):
    settings = [part for setting in (*SETTINGS, *more) for part in ("--set", setting)]
    return ["train", "digits", *settings, "--out", str(out)]


def run_two(code, *arguments):
    """Code in two processes, with the store and the variables that torchrun gives them."""
    store = TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
    given = {
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(store.port),
        "WORLD_SIZE": "2",
        "LOCAL_WORLD_SIZE": "2",
        "TORCHELASTIC_RUN_ID": "none",
        "TORCHELASTIC_RESTART_COUNT": "0",
        "TORCHELASTIC_USE_AGENT_STORE": "True",
    }
    both = [Forked(code, *arguments, **given, RANK=rank, LOCAL_RANK=rank) for rank in "01"]
    ended = [process.end() for process in both]
    assert [end.returncode for end in ended] == [0, 0], ended
    return "".join(end.stdout for end in ended)


def nonneg(*commands):
    return COMMANDS, json.dumps(commands)


def history(folder):
    return [
        {key: value for key, value in record.items() if key not in TIMINGS}
        for record in read_history(folder)
    ]


def assert_same(one, two, rel):
    for ours, theirs in zip(history(one), history(two), strict=True):
        assert ours.pop("warning", None) == theirs.pop("warning", None)
        assert ours == pytest.approx(theirs, rel=rel, abs=1e-9)
    first, second = Encoder.load(one), Encoder.load(two)
    for ours, theirs in zip(first.parameters(), second.parameters(), strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-6, atol=1e-8)


@pytest.fixture(scope="module")
def alone(tmp_path_factory):
    """A run of one process."""
    folder = tmp_path_factory.mktemp("alone") / "run"
    run_forked(*nonneg(train_command(folder)))
    return folder


def test_two_processes_train_as_one(alone, tmp_path):
    said = run_two(*nonneg(train_command(tmp_path / "two")))
    assert said.count("epoch   3/3") == 1  # only the first process speaks
    assert_same(alone, tmp_path / "two", rel=1e-10)


def test_devices_of_one_machine_say_it_once(tmp_path):
    short = ("training.epochs=1", "training.warmup_epochs=0", "training.devices=2")
    command = [sys.executable, "-m", "nonneg", *train_command(tmp_path / "run", *short)]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout.count("encoder, settings and history") == 1


def test_a_killed_worker_is_restarted_and_the_run_ends_the_same(alone, tmp_path):
    """torchrun ends the other worker and starts both again; they resume from the checkpoint."""
    script = tmp_path / "killing.py"
    script.write_text(KILLING)
    torchrun = ["torch.distributed.run", "--nproc-per-node=2", "--standalone", "--max-restarts=1"]
    command = [str(script), "7", "1", *train_command(tmp_path / "run"), "--resume"]
    ended = subprocess.run(
        [sys.executable, "-m", *torchrun, *command], capture_output=True, text=True, timeout=300
    )
    assert ended.returncode == 0, ended.stderr
    assert "resuming" in ended.stdout
    assert_same(alone, tmp_path / "run", rel=1e-6)


def test_two_processes_resume_what_one_began(alone, tmp_path):
    run_forked(KILLING, "7", "0", *train_command(tmp_path / "run"), expect=KILLED)
    said = run_two(*nonneg([*train_command(tmp_path / "run"), "--resume"]))
    assert "resuming" in said
    assert_same(alone, tmp_path / "run", rel=1e-6)


def test_two_processes_embed_and_evaluate_as_one(alone, tmp_path):
    copy = shutil.copytree(alone, tmp_path / "run")
    for folder, start in ((alone, run_forked), (copy, run_two)):
        place = ["--out", str(folder / "Z.npz")]
        commands = [
            ["embed", str(folder), "digits", "--batch-size", "50", "--hidden", *place],
            # The first needs no training samples, but the ranking that comes with it does.
            ["evaluate", "--only", "properties", str(folder)],
            ["evaluate", "--only", "neighbours", str(folder)],
        ]
        start(*nonneg(*commands))
    assert (alone / "Z.npz").read_bytes() == (copy / "Z.npz").read_bytes()
    first, second = (json.loads((f / "evaluation.json").read_text()) for f in (alone, copy))
    for name in ("properties", "neighbours"):
        ours, theirs = (e["sections"][name]["figures"] for e in (first, second))
        assert ours == theirs
    assert (alone / "ranking.json").read_bytes() == (copy / "ranking.json").read_bytes()


def test_one_process_gathers_itself():
    z = torch.rand(4, 3, requires_grad=True)
    assert torch.equal(gathered(z)[0], z)
    view_a, view_b = gathered(z).chunk(2, dim=1)
    info_nce(view_a.flatten(0, 1), view_b.flatten(0, 1), temperature=0.2).backward()
    assert z.grad is not None


# Each process has the same encoder; the first looks, and the other must end with its weights.
REVIVED = textwrap.dedent(
    """
    import os
    import time
    import torch
    from torch import distributed, nn
    from nonneg import Encoder, EncoderSettings
    from nonneg.pairs import Batch, Draws
    from nonneg.head.projector import ProjectorSettings
    from nonneg.head.revival import last_layer
    from nonneg.training.upkeep import restart_features
    from nonneg.training.task import Upkeep

    distributed.init_process_group("gloo")
    rank = distributed.get_rank()
    torch.manual_seed(0)
    head = ProjectorSettings(hidden=(8,), n_features=20)
    encoder = Encoder(EncoderSettings(projector=head), (6,), backbone=nn.Identity())
    last = last_layer(encoder)
    with torch.no_grad():
        last.bias[5:] = -100
    optimizer = torch.optim.AdamW(encoder.parameters())
    # Statistics of batches differ between processes, as they do in a run.
    inputs = torch.randn(64, 6) + rank
    encoder(inputs).features.sum().backward()
    optimizer.step()
    numbers = torch.arange(64)
    batch = Batch(inputs, numbers, Draws(0, 0, numbers), lambda _: inputs)
    upkeep = Upkeep((encoder,), lambda batch: batch.inputs)
    settings = {"seed": 1, "decides": rank == 0, "n_processes": 2}
    restart_features(upkeep, [batch], optimizer, which="dead", **settings)
    moments = optimizer.state[last.weight]["exp_avg"]
    found = torch.cat([last.weight.detach().flatten(), last.bias.detach()])
    both = [torch.zeros_like(found) for _ in range(2)]
    distributed.all_gather(both, found)
    assert torch.equal(*both)
    assert (moments[5:] == 0).all() and (moments[:5] != 0).any()
    assert (last.bias > -50).all()
    restart_features(upkeep, [batch], optimizer, which="all", **settings)
    found = torch.cat([last.weight.detach().flatten(), last.bias.detach()])
    distributed.all_gather(both, found)
    assert torch.equal(*both)
    assert (moments == 0).all()
    print(f"process {rank} has the weights of the first", flush=True)
    # Not the ordinary way out: gloo's threads now and then abort it, which is not what is tested.
    distributed.barrier()
    time.sleep(1)
    os._exit(0)
    """
)


def test_features_are_reinitialised_alike_in_all_processes():
    assert run_two(REVIVED).count("has the weights of the first") == 2
