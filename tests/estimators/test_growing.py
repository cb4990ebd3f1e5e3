"""What features cover, features appended for what they do not, and what a selection loses."""

import pickle
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from scipy import sparse
from sklearn.metrics import roc_auc_score
from twelve_kinds import QUICK, X_NEW, Y_NEW, X, Y

from nonneg import NCL, metrics
from nonneg.estimators.growing import alike_groups
from nonneg.estimators.ncl import held_out
from nonneg.rows import unit_rows

OLD, OLD_NEW = Y < 9, Y_NEW < 9
SIZED = {"max_steps": 60, "batch_size": 128, "random_state": 0}


@pytest.fixture(scope="module", params=[SIZED, QUICK], ids=["linear", "hidden layer"])
def nine(request):
    """Fitted to nine of the twelve kinds."""
    return NCL(**request.param).fit(X[OLD])


@pytest.fixture(scope="module")
def twelve(nine):
    return copied(nine).partial_fit(X[~OLD])


def copied(ncl):
    return pickle.loads(pickle.dumps(ncl))


def unit(rows):
    return rows / np.maximum(np.linalg.norm(rows, axis=-1, keepdims=True), 1e-30)


def novelty_by_loops(ncl, X_train, X_new):
    """The definition, sample by sample, from what ``transform`` and the projection give."""
    projection = ncl.encoder_.backbone.frozen
    centre, axes = projection.center.numpy(), unit(projection.axes.numpy().T).T
    directions = np.zeros((ncl.encoder_.n_features, axes.shape[1]))
    for x, z in zip(X_train - centre, unit(ncl.transform(X_train)), strict=True):
        directions += np.outer(z, unit(x @ axes))
    spread = np.mean([x @ x for x in X_train - centre])
    found = []
    for x, z in zip(X_new - centre, ncl.transform(X_new), strict=True):
        along = unit(z @ unit(directions))
        unexplained = x @ x - max(x @ axes @ along, 0) ** 2
        found.append(unexplained / (unexplained + spread))
    return np.array(found)


def test_novelty_is_its_definition(nine):
    found = nine.novelty(X_NEW)
    assert found.shape == (len(X_NEW),)
    assert found.dtype == np.float64
    np.testing.assert_allclose(found, novelty_by_loops(nine, X[OLD], X_NEW), atol=1e-4)
    trained = nine.novelty(X[OLD])
    assert nine.coverage_.median == pytest.approx(np.quantile(trained, 0.5))
    assert nine.coverage_.limit == pytest.approx(np.quantile(trained, 0.95))


def test_novelty_tells_new_kinds_from_known_ones(nine):
    found = nine.novelty(X_NEW)
    assert roc_auc_score(~OLD_NEW, found) > 0.95
    assert (found[OLD_NEW] > nine.coverage_.limit).mean() < 0.2
    assert 0 <= found.min() < found.max() < 1


def test_novelty_at_its_ends(nine):
    centre = nine.encoder_.backbone.frozen.center.numpy()[None]
    assert nine.novelty(centre) == pytest.approx(0, abs=1e-6)  # nothing is left to explain
    assert nine.novelty(centre + 1e4 * np.random.default_rng(0).normal(size=40)) > 0.999


def test_novelty_takes_every_kind_of_input_and_changes_nothing(nine):
    ncl, given = copied(nine), X_NEW.copy()
    expected = ncl.novelty(given)
    for same in (sparse.csr_array(X_NEW), torch.tensor(X_NEW), X_NEW.tolist()):
        np.testing.assert_allclose(ncl.novelty(same), expected, atol=1e-5)
    np.testing.assert_allclose(ncl.novelty(X_NEW[::-1]), expected[::-1], atol=1e-5)
    np.testing.assert_array_equal(given, X_NEW)
    np.testing.assert_array_equal(ncl.transform(X_NEW), nine.transform(X_NEW))


def test_features_are_appended_for_new_kinds_and_the_others_stay(nine, twelve):
    n, before, after = nine.encoder_.n_features, nine.transform(X_NEW), twelve.transform(X_NEW)
    assert n < after.shape[1] <= n + 6
    # A stronger new feature may take the last place that max_active leaves, nothing else changes.
    stays = after[:, :n] > 0
    np.testing.assert_allclose(after[:, :n][stays], before[stays], rtol=1e-5)
    assert ((before > 0) & ~stays).sum() <= (after[:, n:] > 0).sum()
    appended = after[:, n:] > 0
    assert appended[~OLD_NEW].any(axis=1).mean() > 0.5
    assert appended[OLD_NEW].any(axis=1).mean() < 0.15
    for feature in appended.T:
        assert np.bincount(Y_NEW[feature], minlength=12).argmax() >= 9
    assert len(twelve.get_feature_names_out()) == after.shape[1]


def test_what_was_new_is_then_covered(nine, twelve):
    new = X_NEW[~OLD_NEW]
    assert np.median(twelve.novelty(new)) < np.median(nine.novelty(new)) - 0.04
    assert twelve.coverage_[1:4] == nine.coverage_[1:4]  # scores can be compared
    n = twelve.encoder_.n_features
    # What two groups have in common may become a feature the next time; no more than that.
    assert copied(twelve).partial_fit(X[~OLD]).encoder_.n_features <= n + 2
    assert copied(twelve).partial_fit(X[OLD]).encoder_.n_features <= n + 1


def test_expected_activation_is_that_of_all_samples(nine):
    ncl = copied(nine).set_params(max_active=None)
    ncl.expected_activation_ = metrics.expected_activation(ncl.transform(X[OLD])).per_feature
    ncl.partial_fit(X[~OLD])
    expected = metrics.expected_activation(ncl.transform(X)).per_feature
    n = nine.encoder_.n_features
    new = metrics.expected_activation(ncl.transform(X[~OLD])).per_feature[n:]
    # Of the samples before, an appended feature counts as off; the few that have it on differ.
    np.testing.assert_allclose(ncl.expected_activation_[n:], new * (~OLD).mean(), atol=1e-6)
    np.testing.assert_allclose(ncl.expected_activation_, expected, atol=0.03)
    assert ncl.coverage_.n_samples == len(X)
    assert ncl.n_alive_ == (ncl.expected_activation_ > 0).sum()


def test_names_stay_and_new_features_have_none(nine):
    ncl = copied(nine)
    ncl.describe(X[OLD], labels=[f"kind {y}" for y in Y[OLD]])
    names = list(ncl.feature_names_)
    ncl.partial_fit(X[~OLD])
    assert ncl.feature_names_[: len(names)] == names
    assert set(ncl.feature_names_[len(names) :]) == {""}
    assert len(ncl.feature_names_) == ncl.encoder_.n_features
    assert nine.feature_names_ == []


def test_a_grown_estimator_is_saved_and_loaded(twelve, tmp_path):
    twelve.save(tmp_path)
    loaded = NCL.load(tmp_path)
    np.testing.assert_array_equal(loaded.transform(X_NEW), twelve.transform(X_NEW))
    np.testing.assert_array_equal(loaded.novelty(X_NEW), twelve.novelty(X_NEW))
    assert loaded.coverage_[1:] == twelve.coverage_[1:]
    other = np.random.default_rng(5).normal(size=(40, 40)) * 0.1 + 9 * np.eye(40)[0]
    n = twelve.encoder_.n_features
    assert loaded.partial_fit(other).encoder_.n_features == n + 1
    np.testing.assert_array_equal(loaded.transform(other)[:, n:] > 0, True)
    (tmp_path / "coverage.safetensors").unlink()
    with pytest.raises(FileNotFoundError, match=r"there is no .*coverage\.safetensors"):
        NCL.load(tmp_path)


def test_a_first_partial_fit_is_a_fit(nine):
    first = NCL(**nine.get_params()).partial_fit(X[OLD], Y[OLD])
    np.testing.assert_array_equal(first.transform(X_NEW), nine.transform(X_NEW))


def test_labels_are_ignored_and_few_samples_append_nothing(nine, twelve):
    labelled = copied(nine).partial_fit(X[~OLD], Y[~OLD])
    np.testing.assert_array_equal(labelled.transform(X_NEW), twelve.transform(X_NEW))
    assert copied(nine).partial_fit(X[~OLD][:4]).encoder_.n_features == nine.encoder_.n_features


def test_refusals(nine):
    ncl = copied(nine)
    for method in (ncl.partial_fit, ncl.novelty):
        with pytest.raises(ValueError, match="X has 3 features, but NCL is expecting 40"):
            method(X[:, :3])
        with pytest.raises(ValueError, match="NaN"):
            method(np.full((5, 40), np.nan))
    with pytest.raises(ValueError, match=r"y has 3 .*, but X has 720"):
        ncl.partial_fit(X, Y[:3])
    with pytest.raises(ValueError, match="not fitted"):
        NCL().novelty(X)
    np.testing.assert_array_equal(ncl.transform(X_NEW), nine.transform(X_NEW))
    del ncl.coverage_
    with pytest.raises(ValueError, match=r"saved by an earlier version.*fit it again"):
        ncl.novelty(X)
    signed = NCL(**{**SIZED, "max_steps": 5}, nonnegative="identity").fit(X)
    with pytest.raises(AttributeError) as error:
        signed.partial_fit(X)
    assert "needs features that can be off" in str(error.value.__cause__)
    assert not hasattr(signed, "partial_fit")


def groups_by_loops(vectors, min_cosine, n_least):
    rows, left, found = unit(vectors), set(range(len(vectors))), []
    while left:
        near = {i: [j for j in sorted(left) if rows[i] @ rows[j] >= min_cosine] for i in left}
        leader = max(sorted(left), key=lambda i: len(near[i]))
        if len(near[leader]) < n_least:
            break
        found.append(near[leader])
        mean = unit(rows[near[leader]].mean(axis=0))
        left -= {*near[leader], *(j for j in left if rows[j] @ mean >= min_cosine)}
    return found


@pytest.mark.parametrize("min_cosine", [0.3, 0.7])
def test_groups_are_those_of_loops(min_cosine):
    vectors = X[::6].astype(np.float64) - X.mean(axis=0)
    found = alike_groups(torch.tensor(vectors), min_cosine, n_least=4)
    assert [group.tolist() for group in found] == groups_by_loops(vectors, min_cosine, 4)
    assert len(found) > 3


def test_vectors_without_others_are_in_no_group():
    assert alike_groups(torch.empty(0, 3), 0.5) == []
    assert alike_groups(torch.eye(6), 0.5, n_least=2) == []
    assert len(alike_groups(unit_rows(torch.ones(6, 3)), 0.5, n_least=6)) == 1


def test_a_selection_says_what_it_loses(twelve, recwarn):
    activation = np.sort(twelve.expected_activation_)[::-1]
    shares = activation.cumsum() / activation.sum()
    enough = int((shares < 0.5).sum()) + 1
    with pytest.warns(UserWarning, match=f"^the 2 strongest features hold {shares[1]:.0%} of") as w:
        twelve.select(2)
    assert f"{enough} features hold 50%" in str(w[0].message)
    assert w[0].filename == __file__
    with pytest.warns(UserWarning, match="strongest features hold"):
        twelve.select(enough - 1)
    recwarn.clear()
    smaller = twelve.select(enough)
    assert not recwarn
    assert smaller.novelty(X_NEW).shape == (len(X_NEW),)
    whole = twelve.select(twelve.encoder_.n_features)
    np.testing.assert_allclose(whole.novelty(X_NEW), twelve.novelty(X_NEW), atol=1e-5)


@pytest.mark.parametrize(
    ("n", "n_held"), [(3, 0), (100, 25), (1_000, 200), (5_000, 500), (60_000, 2_000)]
)
def test_so_many_samples_are_kept_out_for_a_target(n, n_held):
    settings = SimpleNamespace(target_active=4, pairs="neighbors")
    held = held_out(n, settings, seed=0)
    assert (0 if held is None else held.sum()) == n_held
    for no in ({"target_active": None, "pairs": "noise"}, {"target_active": 4, "pairs": "labels"}):
        assert held_out(n, SimpleNamespace(**no), seed=0) is None


@pytest.mark.filterwarnings("ignore:.* features are dead:UserWarning")
@pytest.mark.parametrize("target", [3, 6])
def test_a_target_is_met_on_new_samples(target):
    ncl = NCL(**SIZED, target_active=target).fit(X)
    measured = metrics.active_per_sample(ncl.transform(X_NEW)).value
    assert measured == pytest.approx(target, rel=0.1)
