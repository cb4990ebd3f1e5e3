"""Upkeep in training: features are revived, anchored, limited, put right, where it is of use."""

import pytest
import torch
from planted_parts import QUIET, config, encoder, noisy_pairs, planted

import nonneg
from nonneg import Encoder, metrics
from nonneg.data import ArrayData
from nonneg.training import LossSettings, read_history
from nonneg.training.trainer import Run


def mostly_dead(**more):
    learner = encoder(**more)
    with torch.no_grad():
        learner.projector[-1].bias[8:] = -100
    return learner


def n_alive(learner):
    return metrics.sparsity(learner.encode(planted(seed=1)).features).n_alive


@pytest.mark.parametrize("loss", ["info_nce", "queue"])
def test_dead_features_start_anew(loss, tmp_path):
    """A projector that begins with most features far below zero: revived, they learn."""
    for revive in (True, False):
        learner, runs = mostly_dead(), config(revive=revive)
        settings = LossSettings(name=loss, temperature=0.2, queue_size=256)
        runs = runs.model_copy(update={"loss": settings})
        out = tmp_path / str(revive)
        nonneg.train(learner, planted(), noisy_pairs, runs, out=out, console=QUIET)
        assert n_alive(learner) > 16 if revive else n_alive(learner) <= 8


def test_views_of_another_shape_than_the_data_are_looked_at(tmp_path):
    wide = ArrayData(torch.cat([planted().inputs, planted(seed=2).inputs], dim=1))
    learner = mostly_dead()
    nonneg.train(
        learner,
        wide,
        lambda batch: (batch.inputs[:, :16], batch.inputs[:, :16] + 0.1 * batch.inputs[:, 16:]),
        config(),
        out=tmp_path / "run",
        held_out=planted(seed=1),
        console=QUIET,
    )
    assert n_alive(learner) > 16


def test_nothing_is_revived_after_the_last_step(tmp_path):
    learner = mostly_dead()
    runs = config(epochs=1, warmup_epochs=0, batch_size=512)
    nonneg.train(learner, planted(512), noisy_pairs, runs, out=tmp_path / "run", console=QUIET)
    assert n_alive(learner) <= 8


def largest_on_rate(learner):
    """Over views as the learner has seen them."""
    views = planted(4096, seed=1).inputs
    views = views + 0.15 * torch.randn(views.shape, generator=torch.Generator().manual_seed(2))
    return float((learner.encode(views).features > 0).double().mean(dim=0).max())


@pytest.mark.parametrize("kind", ["relu", "rep_relu"])
def test_no_feature_is_on_for_more_than_its_share_at_the_end(kind, tmp_path):
    """A feature of one of six parts is on for a sixth of the views, or for a tenth if limited."""
    for limit in (1.0, 0.1):
        learner = encoder(kind)
        out = tmp_path / str(limit)
        runs = config(max_on_rate=limit)
        nonneg.train(learner, planted(), noisy_pairs, runs, out=out, console=QUIET)
        if limit == 1:
            assert largest_on_rate(learner) > 0.25
        else:
            assert largest_on_rate(learner) < 0.15


def smallest_on_rate(learner):
    """Over views as the learner has seen them."""
    views = planted(4096, seed=1).inputs
    views = views + 0.15 * torch.randn(views.shape, generator=torch.Generator().manual_seed(2))
    return float((learner.encode(views).features > 0).double().mean(dim=0).min())


@pytest.mark.parametrize("keeps_angles", [False, True])
def test_every_feature_is_on_for_its_least_share_at_the_end(keeps_angles, tmp_path):
    """Dead features too, also with angles kept."""
    learner = mostly_dead(n_features=40)
    runs = config(revive=False, min_on_rate=0.04, max_on_rate=0.1, keep_angles=keeps_angles)
    nonneg.train(learner, planted(), noisy_pairs, runs, out=tmp_path / "run", console=QUIET)
    assert smallest_on_rate(learner) > 0.02
    assert largest_on_rate(learner) < 0.15


def test_bounds_without_room_are_refused():
    with pytest.raises(ValueError, match=r"min_on_rate \(0\.2\) must not be above .*max_on_rate"):
        config(min_on_rate=0.2, max_on_rate=0.1)


@pytest.mark.parametrize("kind", ["softplus", "identity"])
def test_features_that_are_never_off_are_not_limited(kind, tmp_path):
    learners = [encoder(kind), encoder(kind)]
    for learner, (least, most) in zip(learners, ((0, 1.0), (0.05, 0.1)), strict=True):
        runs, limit = config(epochs=2, min_on_rate=least, max_on_rate=most), most
        out = tmp_path / str(limit)
        nonneg.train(learner, planted(), noisy_pairs, runs, out=out, console=QUIET)
    for ours, theirs in zip(*(learner.parameters() for learner in learners), strict=True):
        assert torch.equal(ours, theirs)


def test_anchored_features_lose_what_they_had_learnt_and_learn_anew(tmp_path):
    """A projector that is dead but for one feature cannot be revived from it, but anchored."""
    learner, runs = encoder(), config(reinit_at=0.4, revive=False)
    with torch.no_grad():
        learner.projector[-1].bias[1:] = -100
    test = planted(seed=1)
    nonneg.train(learner, planted(), noisy_pairs, runs, out=tmp_path / "run", console=QUIET)
    features = learner.encode(test).features
    assert metrics.class_consistency(features, test.labels).value > 0.8
    assert n_alive(learner) > 16


@pytest.mark.parametrize("kind", ["softplus", "identity"])
def test_features_that_are_never_off_are_not_anchored(kind, tmp_path):
    learners = [encoder(kind), encoder(kind)]
    for learner, share in zip(learners, (0.5, 0), strict=True):
        runs, out = config(epochs=2, reinit_at=share), tmp_path / str(share)
        nonneg.train(learner, planted(), noisy_pairs, runs, out=out, console=QUIET)
    for ours, theirs in zip(*(learner.parameters() for learner in learners), strict=True):
        assert torch.equal(ours, theirs)


def unevenness(learner):
    """The longest direction of the last layer over the shortest: 1 if it keeps all angles."""
    lengths = torch.linalg.svdvals(learner.projector[-1].weight.detach())
    return float(lengths[0] / lengths[-1])


@pytest.mark.parametrize("kind", ["relu", "rep_relu", "identity", "softplus", "gelu"])
def test_scores_keep_angles_if_asked_to(kind, tmp_path):
    for keep in (False, True):
        learner, out = encoder(kind, n_features=40), tmp_path / str(keep)
        runs = config(epochs=2, keep_angles=keep)
        nonneg.train(learner, planted(), noisy_pairs, runs, out=out, console=QUIET)
        if keep and kind not in ("softplus", "gelu"):
            assert unevenness(learner) == pytest.approx(1, abs=1e-4)
        else:
            assert unevenness(learner) > 1.2


@pytest.mark.parametrize("way", ["queue", "frozen", "chunks"])
def test_angles_are_kept_however_a_run_learns(way, tmp_path):
    learner, runs = encoder("identity", n_features=40), config(epochs=2, keep_angles=True)
    if way == "queue":
        settings = LossSettings(name="queue", temperature=0.2, queue_size=256)
        runs = runs.model_copy(update={"loss": settings})
    if way == "frozen":
        settings = learner.settings.model_copy(update={"backbone": None, "frozen": True})
        learner = Encoder(settings, (16,), backbone=learner.backbone)
    if way == "chunks":
        runs = config(epochs=2, keep_angles=True, chunk_size=64)
    nonneg.train(learner, planted(), noisy_pairs, runs, out=tmp_path / "run", console=QUIET)
    assert unevenness(learner) == pytest.approx(1, abs=1e-4)


def test_features_that_keep_angles_are_limited_too_and_still_readable(tmp_path):
    learner, test = encoder(n_features=40), planted(seed=1)
    runs = config(keep_angles=True, max_on_rate=0.1)
    nonneg.train(learner, planted(), noisy_pairs, runs, out=tmp_path / "run", console=QUIET)
    assert largest_on_rate(learner) < 0.15
    features = learner.encode(test).features
    assert metrics.class_consistency(features, test.labels).value > 0.8


def test_too_few_features_to_keep_angles_are_refused_before_anything_is_written(tmp_path):
    runs = config(keep_angles=True)
    with pytest.raises(ValueError, match=r"as the last layer has inputs \(32\), got 24"):
        nonneg.train(encoder(), planted(), noisy_pairs, runs, out=tmp_path / "run")
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("settings", "is_idle"), [({}, False), ({"kind": "identity"}, True), ({"gate": {}}, True)]
)
def test_bounds_that_bound_nothing_are_said_to(settings, is_idle, tmp_path, capsys):
    runs, out = config(epochs=2, max_on_rate=0.1), tmp_path / "run"
    nonneg.train(encoder(**settings), planted(), noisy_pairs, runs, out=out)
    sentence = "training.max_on_rate=0.1 has no effect here: only the on-rates of relu and rep_relu"
    assert (sentence in " ".join(capsys.readouterr().out.split())) is is_idle


def test_a_gate_leaves_the_last_layer_as_it_is(tmp_path):
    learners = [encoder(gate={"prior": 0.8}, n_features=40) for _ in range(2)]
    for learner, keep in zip(learners, (False, True), strict=True):
        runs, out = config(epochs=2, keep_angles=keep), tmp_path / str(keep)
        nonneg.train(learner, planted(), noisy_pairs, runs, out=out, console=QUIET)
    for ours, theirs in zip(*(learner.parameters() for learner in learners), strict=True):
        assert torch.equal(ours, theirs)


def test_a_resumed_run_has_the_same_upkeep(tmp_path, monkeypatch):
    """Stopped before and after features are anchored, revived, put right and limited."""
    runs = config(max_on_rate=0.1, reinit_at=0.3, keep_angles=True)
    whole = mostly_dead(n_features=40)
    nonneg.train(whole, planted(), noisy_pairs, runs, out=tmp_path / "whole", console=QUIET)
    n_steps = read_history(tmp_path / "whole")[-1]["step"]
    for stop in (n_steps // 4, round(n_steps / 3), n_steps - 1, n_steps):
        asked = Run._asked_to_stop
        monkeypatch.setattr(Run, "_asked_to_stop", lambda run, n=stop: run.position.step == n)
        out = tmp_path / str(stop)
        nonneg.train(
            mostly_dead(n_features=40), planted(), noisy_pairs, runs, out=out, console=QUIET
        )
        monkeypatch.setattr(Run, "_asked_to_stop", asked)
        learner = mostly_dead(n_features=40)
        nonneg.train(learner, planted(), noisy_pairs, runs, out=out, resume=True, console=QUIET)
        for ours, theirs in zip(learner.parameters(), whole.parameters(), strict=True):
            assert torch.equal(ours, theirs)
