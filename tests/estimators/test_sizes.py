"""What NCL chooses from the data: sizes, numbers that are kept to, twins that are merged."""

import warnings

import numpy as np
import pytest
import torch
from torch import nn
from twelve_kinds import X_NEW, Y_NEW, X

from nonneg import NCL, metrics
from nonneg.encoder import Encoder, EncoderSettings
from nonneg.estimators import ncl as module
from nonneg.estimators.axes import Axes, principal_axes
from nonneg.estimators.sizes import chosen_sizes, fitted_sizes
from nonneg.head.projector import ProjectorSettings
from nonneg.head.revival import Beginning, begin_at_centres, last_layer, twin_leaders

QUICK = {"max_steps": 60, "batch_size": 128, "random_state": 0}
KINDS = np.arange(1000) % 20
TIGHT = np.eye(20)[KINDS] + 0.1 * np.random.default_rng(1).normal(size=(1000, 20))


def twin_rate(Z):
    """The share of alive features with another whose column has a cosine above 0.9."""
    alive = Z[:, Z.any(axis=0)]
    columns = alive / np.linalg.norm(alive, axis=0)
    cosine = columns.T @ columns - np.eye(columns.shape[1])
    return (cosine.max(axis=0) > 0.9).mean()


def test_about_as_many_features_as_kinds_and_none_twice():
    ncl = NCL(random_state=0).fit(TIGHT)
    Z = ncl.transform(TIGHT)
    assert 20 <= Z.shape[1] <= 30
    assert twin_rate(Z) == 0
    assert metrics.active_per_sample(Z).value < 3
    assert metrics.top_purity(Z, KINDS, m=20).value > 0.99
    assert ncl.max_active_ == 10


def test_where_kinds_are_vague_there_are_more_features_and_few_twins():
    Z = NCL(random_state=0).fit(X).transform(X_NEW)
    assert 30 < Z.shape[1] < 0.35 * len(X)
    assert twin_rate(Z) < 0.05
    assert metrics.top_purity(Z, Y_NEW, m=20).value > 0.9


def test_a_number_that_is_given_is_kept_to_and_twins_are_off():
    with pytest.warns(UserWarning, match="of 64 features are dead .*merged"):
        ncl = NCL(64, random_state=0).fit(TIGHT)
    Z = ncl.transform(TIGHT)
    assert Z.shape[1] == 64
    assert twin_rate(Z) == 0
    assert 20 <= ncl.n_alive_ <= 30


def test_more_detail_has_more_features_on():
    active = {}
    for detail in ("concepts", 0.25, "balanced", 0.75, "full"):
        with np.errstate(all="raise"):
            Z = NCL(detail=detail, **QUICK).fit(X + 0).transform(X_NEW)
        active[detail] = metrics.active_per_sample(Z).value
    assert active["concepts"] <= active["balanced"] < active["full"]


def test_the_dial_goes_from_concepts_by_balanced_to_full():
    assert chosen_sizes(5000, 0.4, 0.0) == chosen_sizes(5000, 0.4, "concepts")
    assert chosen_sizes(5000, 0.4, 0.5) == chosen_sizes(5000, 0.4, "balanced")
    assert chosen_sizes(5000, 0.4, 1.0) == chosen_sizes(5000, 0.4, "full")
    levels = [chosen_sizes(5000, 0.4, level / 10) for level in range(11)]
    temperatures = [sizes.temperature for sizes in levels]
    assert temperatures == sorted(temperatures, reverse=True)
    assert [s.n_components for s in levels] == sorted(s.n_components for s in levels)
    assert [s.max_active for s in levels] == sorted(s.max_active for s in levels)


@pytest.mark.parametrize("n_samples", [2, 10, 100, 10**7])
@pytest.mark.parametrize("clustering", [0.0, 0.55, 1.0])
@pytest.mark.parametrize("detail", ["concepts", "balanced", "full"])
def test_sizes_suit_any_number_of_samples(n_samples, clustering, detail):
    sizes = chosen_sizes(n_samples, clustering, detail)
    assert 1 <= sizes.n_neighbors <= max(1, n_samples // 20)
    assert 16 <= sizes.n_components <= 8192
    assert 0.04 < sizes.temperature < 0.3
    assert 0 <= sizes.partner_rate <= 1


def test_few_samples_of_large_stable_groups_get_features_of_groups():
    fine, large = (chosen_sizes(1500, 0.3, "balanced", stability=s) for s in (0.75, 0.95))
    assert fine == chosen_sizes(1500, 0.3, "balanced")
    assert large.n_components < fine.n_components
    assert large.temperature > fine.temperature
    assert large.topic_strength > fine.topic_strength == 0
    assert large.max_active == 8 < fine.max_active == 16
    many, tight = ((4000, 0.3, "balanced"), (1500, 0.7, "balanced"))
    for given in (many, tight):
        assert chosen_sizes(*given, stability=0.95) == chosen_sizes(*given)


def vague(n_groups, n_samples=1200):
    """Samples of a few large groups, or of one kind, whose neighbours do not agree much."""
    rng = np.random.default_rng(2)
    means = rng.standard_normal((n_groups, 40))[np.arange(n_samples) % n_groups]
    return 0.7 * means + rng.standard_normal((n_samples, 40)) * np.linspace(1.6, 0.4, 40)


def test_large_groups_are_looked_for_only_where_they_count(monkeypatch):
    found = []
    real = Axes.stability
    monkeypatch.setattr(Axes, "stability", lambda *given: found.append(real(*given)) or found[-1])

    def sizes(rows):
        axes = Axes(*principal_axes(rows, 0))
        return fitted_sizes(axes, axes.agreement(rows, 0), rows, "balanced", 0)

    for rows in (TIGHT, np.tile(vague(5), (4, 1)), vague(5)[:100]):
        sizes(rows)
    assert found == [0.0]  # a hundred are too few to tell
    assert sizes(vague(5)).topic_strength > sizes(vague(1)).topic_strength == 0
    assert found[1] > 0.9
    assert found[2] < 0.8


def test_of_many_samples_some_are_learnt_from(monkeypatch):
    monkeypatch.setattr(module, "_MOST_TRAINED", 300)
    seen = []
    real = module.hidden_vectors
    monkeypatch.setattr(
        module,
        "hidden_vectors",
        lambda rows, *others: seen.append(len(rows)) or real(rows, *others),
    )
    NCL(**QUICK).fit(X)
    NCL(**{**QUICK, "max_steps": 2}, pairs="index").fit(X, index_pairs=[[0, 1], [1, 2]])
    assert seen == [300, len(X)]


def test_what_fit_chose_is_saved(tmp_path):
    ncl = NCL(**QUICK).fit(X)
    ncl.save(tmp_path)
    again = NCL.load(tmp_path)
    assert again.max_active == "auto"
    assert again.max_active_ == ncl.max_active_
    np.testing.assert_array_equal(again.transform(X_NEW), ncl.transform(X_NEW))
    few = again.set_params(max_active=1).transform(X_NEW)
    assert (few > 0).sum(axis=1).max() == 1
    np.testing.assert_array_equal(
        again.set_params(max_active="auto").transform(X_NEW), ncl.transform(X_NEW)
    )


def test_merged_twins_leave_similarities_as_they_were():
    generator = torch.Generator().manual_seed(0)
    rows = torch.rand(50, 4, generator=generator) * (torch.rand(50, 4, generator=generator) > 0.5)
    twins = torch.cat([rows, 2 * rows[:, :2], torch.zeros(50, 1)], dim=1)
    kept, factors = twin_leaders(twins)
    assert kept.tolist() == [2, 3, 4, 5]  # the stronger of two, and no dead feature
    merged = twins[:, kept] * factors
    torch.testing.assert_close(merged @ merged.T, twins @ twins.T, rtol=0.05, atol=0.05)


@pytest.mark.parametrize("n_features", [1, 2, 7, 8, 15, 16, 24, 64])
def test_features_begin_with_weights_of_about_one_length(n_features):
    settings = EncoderSettings(
        projector=ProjectorSettings(hidden=(), n_features=max(2, n_features))
    )
    encoder = Encoder(settings, (20,), backbone=nn.Identity())
    if n_features == 1:
        encoder.keep_features(torch.tensor([0]))
    hidden = torch.from_numpy(TIGHT).float()
    beginning = Beginning(n_on=20, n_topics_on=4, topic_strength=0.5)
    begin_at_centres(encoder, hidden, torch.Generator().manual_seed(0), beginning, margin=0.1)
    lengths = last_layer(encoder).weight.detach().norm(dim=1)
    assert float(lengths.min()) > 0.1
    assert float(lengths.max()) < 5


def test_as_many_features_as_asked_for_are_on_at_the_beginning():
    encoder = Encoder(
        EncoderSettings(projector=ProjectorSettings(hidden=(), n_features=160)),
        (40,),
        backbone=nn.Identity(),
    )
    hidden = torch.randn(2000, 40, generator=torch.Generator().manual_seed(0))
    begin_at_centres(encoder, hidden, torch.Generator().manual_seed(0), Beginning(n_on=12))
    n_on = (encoder.projector(hidden) > 0).sum(dim=1).float().mean()
    assert float(n_on) == pytest.approx(12, rel=0.25)


@pytest.mark.parametrize("target", [4, 20])
def test_a_target_leaves_features_to_choose_from_where_kinds_are_few(target):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # most features are dead
        ncl = NCL(target_active=target, random_state=0).fit(TIGHT)
    Z = ncl.transform(TIGHT)
    assert metrics.active_per_sample(Z).value == pytest.approx(target, rel=0.15)
    assert metrics.precision_at_k(Z, KINDS, k=10).value > 0.95
