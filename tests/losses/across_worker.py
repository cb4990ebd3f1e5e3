"""One of several processes that compute a loss together; started by test_across.py.

It takes the folder of a meeting point, its rank and the number of processes, and leaves a file
with the loss and the averaged gradient of every case, for every smaller number of processes too.
"""

import json
import sys
from importlib import import_module
from pathlib import Path

import torch
import torch.distributed as dist

from nonneg.losses import info_nce_across, spectral_contrastive_across
from nonneg.training import LossSettings
from nonneg.training.objectives import objective

N_PAIRS = 6
N_INPUTS = 4
GROUPS = torch.tensor([3, 1, 3, 0, 1, 3])
WEIGHTS = torch.tensor([1.0, 0.0, 2.0, 0.5, 3.0, 1.0], dtype=torch.float64)
CASES = {
    f"{negatives}, {name}": (32, {"negatives": negatives, **settings})
    for negatives in ("both", "cross")
    for name, settings in {
        "plain": {},
        "weights": {"weights": WEIGHTS},
        "ignored": {"groups": GROUPS},
        "positive": {"groups": GROUPS, "same_group": "positive", "weights": WEIGHTS},
    }.items()
} | {"spectral, few features": (5, None), "spectral, many features": (32, None)}
# Each process computes these of the whole batch.
ALONE = ("soft_info_nce", "decoupled", "sigmoid", "vicreg", "barlow_twins")
CASES |= {name: (8, name) for name in ALONE}


def inputs():
    generator = torch.Generator().manual_seed(0)
    return torch.randn(2, N_PAIRS, N_INPUTS, generator=generator, dtype=torch.float64)


def parameters(n_features):
    generator = torch.Generator().manual_seed(1)
    weight = torch.randn(N_INPUTS, n_features, generator=generator, dtype=torch.float64)
    temperature = torch.tensor(0.3, dtype=torch.float64)
    return weight.requires_grad_(), temperature.requires_grad_()


def loss_and_gradients(views, n_features, settings, *, info_nce, spectral):
    weight, temperature = parameters(n_features)
    a, b = (view @ weight for view in views)
    if isinstance(settings, str):
        loss = (
            objective(LossSettings(name=settings))(a, b, torch.cat(tuple(views))) + 0 * temperature
        )
    elif settings is None:
        loss = spectral(a, b) + 0 * temperature
    else:
        loss = info_nce(a, b, temperature=temperature, **settings)
    loss.backward()
    return float(loss.detach()), weight.grad, temperature.grad


def part(settings, mine):
    cut = {"weights", "groups"}
    if not isinstance(settings, dict):
        return settings
    return {k: v[mine] if k in cut else v for k, v in settings.items()}


def results(rank, n_processes):
    size = N_PAIRS // n_processes
    mine = slice(rank * size, (rank + 1) * size)
    found = {}
    for name, (n_features, settings) in CASES.items():
        loss, *gradients = loss_and_gradients(
            inputs()[:, mine],
            n_features,
            part(settings, mine),
            info_nce=info_nce_across,
            spectral=spectral_contrastive_across,
        )
        for gradient in gradients:  # what DDP does
            dist.all_reduce(gradient)
            gradient /= n_processes
        found[name] = [loss, *(gradient.tolist() for gradient in gradients)]
    return found


def complaint(rank):
    unequal = torch.ones(2 + rank, 3)
    try:
        info_nce_across(unequal, unequal, temperature=0.2)
    except ValueError as error:
        return str(error)
    return "no error"


def main():
    folder, rank, world = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
    torch.set_num_threads(1)
    found = {}
    for n_processes in range(rank + 1, world + 1):
        meeting = (folder / f"meeting-{n_processes}").as_uri()
        dist.init_process_group("gloo", meeting, rank=rank, world_size=n_processes)
        for tiled_from in (10**9, 0):
            import_module("nonneg.losses.info_nce").TILED_FROM = tiled_from
            import_module("nonneg.losses._tiled").CPU_TILE = (6, 4)
            found[f"{n_processes} {tiled_from}"] = results(rank, n_processes)
        if n_processes == 2:
            found["complaint"] = complaint(rank)
        dist.destroy_process_group()
    (folder / f"rank-{rank}.json").write_text(json.dumps(found))


if __name__ == "__main__":
    main()
