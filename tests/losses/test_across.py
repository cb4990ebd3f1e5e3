"""Processes with a part of the batch each give the loss and gradient of one with the whole."""

import json
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

import pytest
import torch
from forking import Forked

from nonneg.losses import (
    gathered,
    info_nce,
    info_nce_across,
    spectral_contrastive,
    spectral_contrastive_across,
)
from nonneg.losses.distributed import summed, with_mean_value

WORKER = Path(__file__).with_name("across_worker.py")
spec = spec_from_file_location("across_worker", WORKER)
worker = module_from_spec(spec)
spec.loader.exec_module(worker)

N_PROCESSES = 3


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    if not torch.distributed.is_gloo_available():
        pytest.skip("torch was built without gloo")
    folder = tmp_path_factory.mktemp("across")
    code = WORKER.read_text()
    processes = [Forked(code, folder, rank, N_PROCESSES) for rank in range(N_PROCESSES)]
    try:
        for process in processes:
            ended = process.end()
            assert ended.returncode == 0, ended.stderr
    finally:
        for process in processes:
            process.kill()
    return [json.loads((folder / f"rank-{r}.json").read_text()) for r in range(N_PROCESSES)]


@pytest.mark.parametrize("name", list(worker.CASES))
def test_equals_one_process(found, name):
    n_features, settings = worker.CASES[name]
    loss, *gradients = worker.loss_and_gradients(
        worker.inputs(), n_features, settings, info_nce=info_nce, spectral=spectral_contrastive
    )
    for n_processes in range(1, N_PROCESSES + 1):
        for tiled_from in (0, 10**9):
            for rank in range(n_processes):
                value, *theirs = found[rank][f"{n_processes} {tiled_from}"][name]
                assert value == pytest.approx(loss, rel=1e-10, abs=1e-10)
                for their, our in zip(theirs, gradients, strict=True):
                    their = torch.tensor(their, dtype=torch.float64)
                    torch.testing.assert_close(their, our, rtol=1e-10, atol=1e-10)


def test_unequal_parts_are_one_sentence_in_every_process(found):
    for rank in range(2):
        assert found[rank]["complaint"] == (
            "processes have batches of different shapes: (2, 3), (3, 3); "
            "give every process the same number of pairs"
        )


def test_without_processes_they_are_the_plain_losses():
    a, b = torch.randn(2, 5, 3, generator=torch.Generator().manual_seed(0))
    settings = {"temperature": 0.3, "negatives": "cross", "groups": torch.tensor([0, 0, 1, 1, 2])}
    assert torch.equal(info_nce_across(a, b, **settings), info_nce(a, b, **settings))
    assert torch.equal(spectral_contrastive_across(a, b), spectral_contrastive(a, b))
    assert torch.equal(gathered(a), a[None])
    assert summed(a) is a
    assert with_mean_value(a) is a
