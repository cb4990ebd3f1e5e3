"""Which features are kept, and what they are worth: planted cases with a known answer."""

import pytest
import torch

from nonneg import metrics
from nonneg.encoder import Encoded
from nonneg.evaluation import Known, selection_table
from nonneg.evaluation.selection import ranked_values


def known(scores, labels, rectify=True):
    features = scores.clamp(min=0) if rectify else scores
    return Known(Encoded(features, scores, features), labels)


def planted(n=200, seed=0):
    """Features 0 to 3 stand for the four classes, 4 to 7 are weak noise, 8 is dead."""
    generator = torch.Generator().manual_seed(seed)
    labels = torch.arange(n) % 4
    scores = 0.05 * torch.rand(n, 9, generator=generator)
    scores[torch.arange(n), labels] += 1
    scores[:, 8] = -1
    return known(scores, labels)


def table(**changes):
    return selection_table(planted(), planted(seed=1), **{"sizes": (4,), "k": 5, **changes})


def test_the_strong_features_are_kept_and_lose_nothing():
    rows = {row.ranking: row for row in table()}
    assert rows["ea_rectified"].n_features == 4
    assert rows["ea_rectified"].probe == rows["all"].probe == 1.0
    assert rows["ea_rectified"].retrieval == rows["all"].retrieval == 1.0
    assert rows["random"].retrieval < 0.95
    assert rows["random"].retrieval_std > 0
    assert rows["all"].n_features == 9


def test_a_share_is_of_the_features_alive():
    rows = [row for row in table(sizes=(0.5, 0.25)) if row.ranking == "ea_rectified"]
    assert [(row.size, row.n_features) for row in rows] == [(0.5, 4), (0.25, 2)]


def test_random_choices_are_of_features_alive():
    """Eight of nine are alive: all eight at once is every draw, and none has the dead one."""
    (row,) = [row for row in table(sizes=(8,)) if row.ranking == "random"]
    assert row.retrieval_std == 0.0
    assert row.retrieval == 1.0


def test_rankings_come_from_the_training_samples_alone():
    """Test samples on which other features are strong do not change the choice."""
    odd = planted(seed=1)
    moved = odd.encoded.features.roll(4, dims=1)
    strange = Known(Encoded(moved, moved, moved), odd.labels)
    rows = {row.ranking: row for row in selection_table(planted(), strange, sizes=(4,), k=5)}
    assert rows["ea_rectified"].retrieval < 0.6


def test_signed_ranking_looks_at_the_scores():
    """A feature that is far below zero mostly, and strong rarely, ranks low on signed scores."""
    n = 200
    labels = torch.arange(n) % 2
    scores = torch.zeros(n, 3)
    scores[labels == 0] = torch.tensor([2.0, 0.2, -5.0])
    scores[labels == 1] = torch.tensor([-5.0, 0.2, 2.0])
    both = known(scores, labels)
    rows = {row.ranking: row for row in selection_table(both, both, sizes=(1,), k=5)}
    assert rows["ea_rectified"].probe == 1
    assert rows["ea_signed"].probe < 0.7


def test_a_feature_behind_a_shut_gate_is_not_chosen():
    """Its score is the largest of all, and the feature is almost always zero."""
    seen = planted()
    scores = seen.encoded.scores.clone()
    scores[:, 4] = 5
    features = scores.clamp(min=0)
    features[1:, 4] = 0
    gated = Known(Encoded(features, scores, features), seen.labels)
    by_features = metrics.select(ranked_values(gated.encoded, rectified=True), 4)
    assert sorted(by_features.tolist()) == [0, 1, 2, 3]
    by_scores = metrics.select(ranked_values(gated.encoded, rectified=False), 4, by="ea_signed")
    assert 4 in by_scores
    rows = {row.ranking: row for row in selection_table(gated, planted(seed=1), sizes=(4,), k=5)}
    assert rows["ea_rectified"].retrieval == 1.0


def test_transfer_is_measured_where_another_set_is_given():
    assert table()[0].transfer is None
    rows = {row.ranking: row for row in table(transfer=(planted(seed=2), planted(seed=3)))}
    assert rows["all"].transfer == 1.0
    assert rows["random"].transfer_std > 0


def test_nothing_alive_is_said():
    dead = known(torch.full((20, 3), -1.0), torch.arange(20) % 2)
    with pytest.raises(ValueError, match="only 0 features are alive; there is nothing to select"):
        selection_table(dead, dead, sizes=(1,))
