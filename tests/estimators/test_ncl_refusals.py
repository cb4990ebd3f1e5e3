"""What the estimator refuses, before and after it is fitted, with a sentence each."""

import pickle

import numpy as np
import pytest
import torch
from scipy import sparse
from twelve_kinds import QUICK, WORDS, X_NEW, X, Y

from nonneg.estimators import NCL
from nonneg.estimators.inputs import NCLSettings


@pytest.fixture(scope="module")
def fitted():
    return NCL(**QUICK).fit(X)


def with_nan():
    bad = X.copy()
    bad[[4, 17], 3] = np.nan
    return bad


def without_some():
    some = Y.astype(float)
    some[[4, 17]] = np.nan
    return some


@pytest.mark.parametrize(
    ("settings", "inputs", "given", "message"),
    [
        ({}, with_nan(), {}, "NaN or infinity .* in 2 of 720 rows: 4, 17"),
        ({"n_neighbors": 20}, X[:20], {}, "n_neighbors must be between 1 and 19, got 20"),
        ({}, np.full((50, 3), 0.1), {}, "X is constant: all 50 rows are equal"),
        ({"pairs": "labels"}, X, {}, "requires y to be passed"),
        ({"pairs": "labels"}, X, {"y": Y[:5]}, "y has 5 entries, but X has 720 rows; give one per"),
        ({}, X, {"y": Y[:5]}, "y has 5 entries, but X has 720 rows; give one per row"),
        ({"pairs": "labels"}, X, {"y": Y[:, None]}, r"y must have shape \(720,\), got \(720, 1\)"),
        (
            {},
            ["a text", "another"],
            {},
            r"X holds texts, not vectors; embed them .*encode\(texts\)",
        ),
        ({}, np.array(["a text", "another"]), {}, "X holds texts, not vectors; embed them first"),
        (
            {"pairs": "labels", "detail": "full"},
            X,
            {"y": Y},
            "detail='full' is for pairs='neighbor",
        ),
        ({"detail": 1.5}, X, {}, "detail"),
        ({"pairs": "graph"}, X, {}, "needs a graph"),
        ({"pairs": "index"}, X, {}, "needs pairs"),
        ({"pairs": "graph"}, X, {"graph": sparse.eye_array(9)}, "has 9 nodes, but X has 720 rows"),
        ({"pairs": "graph"}, X, {"graph": np.eye(9)}, "has 9 nodes, but X has 720 rows"),
        ({"pairs": "graph"}, X, {"graph": Y}, r"graph must be square .*, got shape \(720,\)"),
        ({"pairs": "graph"}, X, {"graph": -np.eye(720)}, "graph holds the weight -1.0"),
        ({}, X, {"index_pairs": [[0, 1]]}, "index_pairs was given, but pairs='neighbors'"),
        ({"pairs": "nearest"}, X, {}, "setting 'pairs'.*got 'nearest'"),
        ({"temperature": 0.0}, X, {}, "setting 'temperature'.*got 0.0"),
        ({"nonnegative": "abs"}, X, {}, "unknown transform"),
        ({"device": "gpu9"}, X, {}, "unknown device"),
        (
            {"device": "meta"},
            X,
            {},
            "^device='meta' was asked for, but PyTorch sees no META device",
        ),
        ({"denoise": 41}, X, {}, "denoise=41 asks for more principal axes than the 40 found"),
        (
            {"pairs": "labels"},
            X,
            {"y": np.full(720, np.nan)},
            r"in 720 of 720 rows: 0, 1, 2, 3, 4, …",
        ),
        (
            {"pairs": "labels"},
            X,
            {"y": without_some()},
            r"\(NaN or None\) in 2 of 720 rows: 4, 17;",
        ),
        ({"pairs": "labels"}, X, {"y": [*WORDS[:-1], np.nan]}, "in 1 of 720 rows: 719;"),
        ({"pairs": "labels"}, X, {"y": np.ones(720)}, "^y has one class only, so nothing can be"),
        ({"pairs": "index"}, X, {"index_pairs": []}, "index_pairs holds no pairs"),
        ({"target_active": 64}, X, {}, "must be below n_components=64"),
        ({"target_active": 4, "nonnegative": "softplus"}, X, {}, "needs exact zeros"),
    ],
)
def test_errors_say_what_is_wrong(settings, inputs, given, message):
    with pytest.raises(ValueError, match=message):
        NCL(**{**QUICK, **settings}).fit(inputs, **given)


def test_labels_of_several_types_cannot_be_compared():
    with pytest.raises(TypeError, match="y mixes labels that cannot be compared"):
        NCL(**QUICK, pairs="labels").fit(X, np.array([*WORDS[:-1], 3], dtype=object))


def test_a_device_beyond_those_there_are(monkeypatch):
    seen = (torch.device("cuda"), 2)
    monkeypatch.setattr("nonneg.inference._accelerator", lambda: seen)
    settings = NCL(device="cuda:2").get_params()
    with pytest.raises(ValueError, match=r"^device='cuda:2' was asked for, .* sees 2 CUDA devices"):
        NCLSettings.of(settings)
    assert NCLSettings.of({**settings, "device": "cuda:1"}).torch_device.index == 1


def test_most_samples_as_partners_are_warned_of():
    with pytest.warns(UserWarning, match="n_neighbors=31 makes more than half of the 60 samples"):
        NCL(**{**QUICK, "max_steps": 2}, n_neighbors=31).fit(X[::12])
    NCL(**{**QUICK, "max_steps": 2}, n_neighbors=30).fit(X[::12])


def test_an_edit_refuses_what_is_no_feature(fitted):
    Z = fitted.transform(X_NEW)
    for remove in ("10", 3, None):
        with pytest.raises(TypeError, match=r"list of features by number or name, as \[3\], got"):
            fitted.edit(Z, remove=remove)
    for which in (1.5, True, None, np.float64(2)):
        with pytest.raises(TypeError, match="given by its number or its name, got"):
            fitted.edit(Z, remove=[which])
        with pytest.raises(TypeError, match="given by its number or its name, got"):
            fitted.edit(Z, boost={which: 2})
    with pytest.raises(TypeError, match="boost takes a factor for each feature"):
        fitted.edit(Z, boost=[3])
    for wrong in (Z[:, :3], Z[0], sparse.csr_array(Z[:, :3])):
        with pytest.raises(ValueError, match=r"Z has shape .*; give what transform returns"):
            fitted.edit(wrong, remove=[0])
    with pytest.raises(ValueError, match="not fitted"):
        NCL().edit(Z, remove=[0])
    expected = np.delete(Z, [1, 2], axis=1)
    for some in ([1, 2], np.array([1, 2]), torch.tensor([1, 2])):
        found = fitted.edit(Z.tolist(), remove=some)
        np.testing.assert_array_equal(np.delete(found, [1, 2], axis=1), expected)
        assert not found[:, [1, 2]].any()


@pytest.mark.parametrize("given", [{}, {"labels": WORDS}])
def test_an_edit_never_takes_an_empty_name(fitted, given):
    ncl = pickle.loads(pickle.dumps(fitted))
    ncl.describe(X, **given)
    ncl.feature_names_[0] = ""
    Z = ncl.transform(X_NEW)
    for edit in ({"remove": [""]}, {"boost": {"": 2.0}}):
        with pytest.raises(ValueError, match=r"an empty name .* without a name by its number"):
            ncl.edit(Z, **edit)


@pytest.mark.parametrize("k", [2.5, True, "3", None])
def test_numbers_of_features_and_rows_are_whole(fitted, k):
    with pytest.raises(TypeError, match="k must be a whole number of features, got"):
        fitted.select(k)
    Z = fitted.transform(X_NEW)
    with pytest.raises(TypeError, match="k must be a whole number of rows, got"):
        fitted.neighbors(Z, Z, k)


def test_errors_after_fit(fitted):
    with pytest.raises(ValueError, match="not fitted"):
        NCL().transform(X)
    with pytest.raises(ValueError, match="X has 3 features, but NCL is expecting 40 features"):
        fitted.transform(X[:, :3])
    with pytest.raises(ValueError, match="one vector at a time, got 2 rows"):
        fitted.explain(X[:2])
    with pytest.raises(ValueError, match="between 1 and the 64 features, got 65"):
        fitted.select(65)
    with pytest.raises(ValueError, match="between 1 and the 64 features, got 0"):
        fitted.select(0)
