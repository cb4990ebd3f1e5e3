"""A batch in chunks has the gradient of the whole batch."""

import pytest
import torch
from rich.console import Console
from torch import nn

import nonneg
from nonneg import Encoder, EncoderSettings, TrainConfig
from nonneg.data import ArrayData
from nonneg.head.projector import ProjectorSettings

QUIET = Console(quiet=True)


def noisy(batch):
    noise = 0.3 * batch.draws.normal(20)
    return batch.inputs + noise[:, :10], batch.inputs + noise[:, 10:]


def trained(
    folder, chunk_size, *, norm="layer", backbone=None, loss="info_nce", weight=0.0, watch=None
):
    torch.manual_seed(0)
    settings = EncoderSettings(projector=ProjectorSettings(hidden=(32,), n_features=16, norm=norm))
    encoder = Encoder(settings, (10,), backbone=backbone or nn.Linear(10, 24))
    if watch:
        watch[0].register_forward_hook(watch[1])
    vectors = torch.randn(64, 10, generator=torch.Generator().manual_seed(1))
    loop = {"epochs": 1, "batch_size": 64, "warmup_epochs": 0, "precision": "64-true"}
    if chunk_size is not None:
        loop["chunk_size"] = chunk_size
    optimizer = {"name": "sgd", "lr": 1.0, "momentum": 0.0, "weight_decay": 0.0}
    minimised = {"name": loss, "backbone_weight": weight}
    config = TrainConfig.read({"training": loop, "optimizer": optimizer, "loss": minimised})
    result = nonneg.train(encoder, ArrayData(vectors), noisy, config, out=folder, console=QUIET)
    return encoder, result.history[-1]["loss"]


@pytest.mark.parametrize(
    ("loss", "weight"), [("info_nce", 0), ("spectral", 0), ("info_nce", 0.3), ("info_nce", 1)]
)
@pytest.mark.parametrize("chunk_size", [2, 30, 64, 127])
def test_the_step_is_that_of_the_whole_batch(tmp_path, chunk_size, loss, weight):
    """One step of plain SGD with rate 1 is the gradient; 30 makes chunks of 25 and 26 rows."""
    whole, loss_whole = trained(tmp_path / "whole", None, loss=loss, weight=weight)
    chunked, loss_chunked = trained(tmp_path / "chunked", chunk_size, loss=loss, weight=weight)
    assert loss_chunked == pytest.approx(loss_whole, rel=1e-12)
    for ours, theirs in zip(chunked.parameters(), whole.parameters(), strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-10, atol=1e-12)


def test_a_chunk_of_the_whole_batch_takes_no_second_pass(tmp_path):
    passes = []
    backbone = nn.Linear(10, 24)
    backbone.register_forward_hook(lambda *_: passes.append(torch.is_grad_enabled()))
    trained(tmp_path / "run", 128, backbone=backbone)
    assert passes.count(True) == 1


def test_dropout_draws_the_same_in_both_passes(tmp_path):
    """Otherwise the gradient would belong to other features than the loss."""
    seen = {False: [], True: []}
    backbone = nn.Sequential(nn.Linear(10, 24), nn.Dropout(0.5))

    def note(module, inputs, output):
        if module.training:
            seen[torch.is_grad_enabled()].append(output.detach().clone())

    trained(tmp_path / "run", 32, backbone=backbone.eval(), watch=(backbone, note))
    assert len(seen[True]) == 4
    for first, second in zip(seen[False], seen[True], strict=True):
        torch.testing.assert_close(first, second)


def test_running_statistics_move_once(tmp_path):
    encoder, _ = trained(tmp_path / "run", 32, norm="batch")
    counters = [b for name, b in encoder.named_buffers() if name.endswith("num_batches_tracked")]
    assert [int(count) for count in counters] == [4]  # 128 views in chunks of 32


def test_gradients_are_those_of_a_chunk_under_batch_norm(tmp_path):
    """The stated price: statistics of a chunk are not those of the batch."""
    whole, _ = trained(tmp_path / "whole", None, norm="batch")
    chunked, _ = trained(tmp_path / "chunked", 32, norm="batch")
    pairs = zip(chunked.parameters(), whole.parameters(), strict=True)
    assert any(not torch.allclose(a, b, rtol=1e-3) for a, b in pairs)


def test_no_chunk_is_left_with_one_row(tmp_path):
    """Batch normalisation cannot do with one: 128 views in chunks of 127 are two halves."""
    sizes = []
    backbone = nn.Linear(10, 24)
    watch = (backbone, lambda module, inputs, output: sizes.append(len(output)))
    trained(tmp_path / "run", 127, norm="batch", backbone=backbone, watch=watch)
    assert sizes[-2:] == [64, 64]
