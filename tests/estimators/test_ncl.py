"""What the estimator promises: it learns, explains and can be edited."""

import pickle

import numpy as np
import pytest
import torch
from scipy import sparse
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import normalize
from twelve_kinds import N_COLUMNS, QUICK, WORDS, X_NEW, Y_NEW, X, Y

from nonneg import Encoder, metrics
from nonneg.estimators import NCL
from nonneg.estimators.axes import Projection

FILES = ["config.json", "coverage.safetensors", "model.safetensors"]


@pytest.fixture(scope="module")
def fitted():
    return NCL(**QUICK).fit(X)


def purity(ncl):
    return metrics.top_purity(ncl.transform(X_NEW), Y_NEW, m=20).value


def test_features_are_poor_before_and_stand_for_one_kind_after(fitted):
    before = np.maximum(X_NEW - X.mean(axis=0), 0)
    Z = fitted.transform(X_NEW)
    assert metrics.class_consistency(before, Y_NEW).value < 0.3
    assert metrics.class_consistency(Z, Y_NEW).value > 0.9
    assert purity(fitted) > 0.95
    assert metrics.precision_at_k(Z, Y_NEW, 10, gallery=(fitted.transform(X), Y)).value > 0.95
    assert metrics.active_per_sample(Z).value < 10
    assert fitted.history_[-1]["loss"] < fitted.history_[0]["loss"]
    assert fitted.n_iter_ == 150


@pytest.mark.parametrize("pairs", ["labels", "graph", "index"])
def test_given_pairs_teach_what_neighbors_cannot(pairs):
    """Kinds that differ in one weak column among strong ones without meaning."""
    rng = np.random.default_rng(0)
    y = np.arange(300) % 2
    hidden_kind = np.column_stack([0.5 * (2 * y - 1), 2.0 * rng.standard_normal((300, 6))])
    same = (y[:, None] == y) & ~np.eye(300, dtype=bool)
    given = {
        "labels": {"y": y},
        "graph": {"graph": sparse.csr_array(same.astype(float))},
        "index": {"index_pairs": np.argwhere(same)[::7]},
    }[pairs]
    blind = NCL(**QUICK, denoise="none").fit(hidden_kind)
    told = NCL(**QUICK, denoise="none", pairs=pairs).fit(hidden_kind, **given)
    found = [
        metrics.precision_at_k(ncl.transform(hidden_kind), y, 10).value for ncl in (blind, told)
    ]
    assert found[0] < 0.8
    assert found[1] > 0.95


@pytest.mark.parametrize("kind", [np.array, np.ndarray.tolist, torch.tensor, sparse.coo_array])
def test_a_graph_is_sparse_or_an_array(kind):
    same = (Y[:, None] == Y).astype(float)
    settings = {**QUICK, "max_steps": 5, "pairs": "graph"}
    expected = NCL(**settings).fit(X, graph=sparse.csr_array(same)).transform(X)
    np.testing.assert_array_equal(NCL(**settings).fit(X, graph=kind(same)).transform(X), expected)


def test_noise_as_partner_learns_too():
    assert purity(NCL(**QUICK, pairs="noise").fit(X)) > 0.8


@pytest.mark.filterwarnings("ignore:.* features are dead:UserWarning")
@pytest.mark.parametrize("target", [2, 20])
def test_target_active_holds_on_new_samples(target):
    ncl = NCL(**QUICK, target_active=target).fit(X)
    measured = metrics.active_per_sample(ncl.transform(X_NEW)).value
    assert measured == pytest.approx(target, rel=0.1)
    assert metrics.sparsity(ncl.transform(X_NEW)).n_zero_rows <= 2
    assert (ncl.threshold_ > 0.01) == (target == 2)  # 20 are more than the head would use


def test_max_active_keeps_the_largest(fitted):
    whole = fitted.transform(X_NEW)
    kept = pickle.loads(pickle.dumps(fitted)).set_params(max_active=np.int64(2))
    few = kept.transform(X_NEW)
    np.testing.assert_array_equal(few[few > 0], whole[few > 0])
    assert ((few > 0).sum(axis=1) == np.minimum((whole > 0).sum(axis=1), 2)).all()
    for row_few, row in zip(few, whole, strict=True):
        assert sorted(row_few[row_few > 0]) == sorted(np.sort(row[row > 0])[-2:])
    np.testing.assert_array_equal(kept.set_params(max_active=None).transform(X_NEW), whole)


def test_output_is_the_same_for_every_kind_of_input(fitted, tmp_path):
    expected = fitted.transform(X_NEW)
    assert expected.dtype == np.float32
    np.save(tmp_path / "x.npy", X_NEW)
    same = [
        np.asfortranarray(X_NEW),
        np.load(tmp_path / "x.npy", mmap_mode="r"),
        sparse.csr_array(X_NEW),
        sparse.csc_matrix(X_NEW),
        X_NEW.astype(np.float32),
        X_NEW.tolist(),
    ]
    for inputs in same:
        np.testing.assert_allclose(fitted.transform(inputs), expected, rtol=1e-3, atol=1e-4)


def test_an_encoder_in_training_mode_gives_the_same_features_and_does_not_change(fitted):
    expected = fitted.transform(X_NEW)
    before = {name: value.clone() for name, value in fitted.encoder_.state_dict().items()}
    fitted.encoder_.train()
    try:
        assert np.array_equal(fitted.transform(X_NEW), expected)
        assert fitted.encoder_.training
    finally:
        fitted.encoder_.eval()
    assert all(
        torch.equal(before[name], value) for name, value in fitted.encoder_.state_dict().items()
    )


def as_bfloat16(array):
    return torch.tensor(array, dtype=torch.bfloat16)


def with_gradient(array):
    return torch.tensor(array, dtype=torch.float32, requires_grad=True)


@pytest.mark.parametrize("kind", [as_bfloat16, with_gradient])
def test_tensors_give_what_their_numbers_give(kind):
    tensor = kind(X)
    numbers = tensor.detach().float().numpy()
    told = NCL(**{**QUICK, "max_steps": 5}).fit(tensor)
    expected = NCL(**{**QUICK, "max_steps": 5}).fit(numbers)
    np.testing.assert_array_equal(told.transform(tensor), expected.transform(numbers))
    assert told.explain(tensor[0], tensor[:1]) == expected.explain(numbers[0], numbers[:1])
    assert told.describe(tensor, labels=WORDS) == expected.describe(numbers, labels=WORDS)
    Z = kind(expected.transform(numbers))
    np.testing.assert_array_equal(told.edit(Z), Z.detach().float().numpy())


def test_sparse_output_holds_the_same_numbers(fitted):
    thin = clone(fitted).set_params(sparse_output=True)
    thin.__dict__.update(encoder_=fitted.encoder_, n_features_in_=N_COLUMNS)
    thin.max_active_ = fitted.max_active_
    Z = thin.transform(X_NEW)
    assert isinstance(Z, sparse.csr_array)
    np.testing.assert_array_equal(Z.toarray(), fitted.transform(X_NEW))


def test_fits_sparse_vectors_as_dense_ones():
    dense = NCL(**{**QUICK, "max_steps": 20}).fit(X)
    thin = NCL(**{**QUICK, "max_steps": 20}).fit(sparse.csr_array(X))
    np.testing.assert_allclose(thin.transform(X), dense.transform(X), rtol=1e-3, atol=1e-3)


def test_a_seed_gives_the_same_and_global_state_is_left_alone():
    one = NCL(**{**QUICK, "max_steps": 20}).fit(X).transform(X)
    torch.manual_seed(3)
    before = torch.get_rng_state()
    two = NCL(**{**QUICK, "max_steps": 20}).fit(X).transform(X)
    other = NCL(**{**QUICK, "max_steps": 20, "random_state": 1}).fit(X).transform(X)
    np.testing.assert_array_equal(one, two)
    assert not np.array_equal(one, other)
    assert torch.equal(torch.get_rng_state(), before)


def test_contributions_add_up_to_the_cosine(fitted):
    Z = fitted.transform(X_NEW).astype(float)
    a, b = Z[0], Z[5]
    found = fitted.explain(X_NEW[0], X_NEW[5])
    assert found.cosine == pytest.approx(a @ b / np.linalg.norm(a) / np.linalg.norm(b), abs=1e-5)
    assert sum(s.contribution for s in found.shared) == pytest.approx(found.cosine)
    alone = fitted.explain(X_NEW[0])
    assert {s.feature for s in alone.shared} == set(np.flatnonzero(a))


def test_select_computes_the_same_columns(fitted):
    smaller = fitted.select(20)
    np.testing.assert_array_equal(
        smaller.transform(X_NEW), fitted.transform(X_NEW)[:, fitted.rank_[:20]]
    )
    assert smaller.encoder_.projector[-1].weight.shape[0] == smaller.n_components == 20
    expected = metrics.expected_activation(fitted.transform(X)).per_feature
    np.testing.assert_allclose(fitted.expected_activation_, expected, rtol=1e-4, atol=1e-7)
    assert (np.diff(expected[fitted.rank_]) <= 1e-6).all()


def test_removing_the_feature_of_a_kind_lowers_that_kind_only(fitted):
    ncl = pickle.loads(pickle.dumps(fitted))
    kinds = [f"kind {y}" for y in Y]
    ncl.describe(X, labels=kinds)
    gallery = ncl.transform(X)
    halves = [normalize(ncl.transform(X_NEW[kind == Y_NEW])) for kind in (3, 7)]
    mixed = halves[0] + halves[1]

    def shares(queries):
        found = Y[ncl.neighbors(queries, gallery, k=30).numbers]
        return [float((found == kind).mean()) for kind in (3, 7)]

    before = shares(mixed)
    after = shares(ncl.edit(mixed, remove=["kind 3"]))
    boosted = shares(ncl.edit(mixed, boost={"kind 3": 5}))
    assert min(before) > 0.2
    assert after[0] < 0.05
    assert after[1] > before[1]
    assert boosted[0] > before[0]


def test_names_reach_the_explanation(fitted):
    ncl = pickle.loads(pickle.dumps(fitted))
    texts = [f"sample of kind{y}" for y in Y]
    described = ncl.describe(X, texts=texts, labels=Y, n_words=1)
    assert len(described) == 64
    shared = ncl.explain(X_NEW[0], X_NEW[1]).shared[0].name
    assert shared.split(" (")[0] == f"kind{Y_NEW[0]}"  # features of one kind are numbered
    with pytest.raises(ValueError, match="no feature is called 'kind99'"):
        ncl.edit(ncl.transform(X), remove=["kind99"])


def test_saved_and_pickled_estimators_are_equal(fitted, tmp_path):
    ncl = pickle.loads(pickle.dumps(fitted))
    ncl.describe(X, labels=Y)
    ncl.save(tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == FILES
    before = torch.get_rng_state()
    loaded = NCL.load(tmp_path)
    assert torch.equal(torch.get_rng_state(), before)
    np.testing.assert_array_equal(loaded.transform(X_NEW), fitted.transform(X_NEW))
    np.testing.assert_array_equal(loaded.rank_, fitted.rank_)
    assert loaded.get_params() == ncl.get_params()
    assert loaded.feature_names_ == ncl.feature_names_
    assert (loaded.n_dead_, loaded.n_iter_) == (fitted.n_dead_, fitted.n_iter_)
    backbone = Projection(N_COLUMNS, fitted.n_axes_)
    features = Encoder.load(tmp_path, backbone=backbone).encode(X_NEW.astype(np.float32)).features
    np.testing.assert_allclose(features, fitted.transform(X_NEW), rtol=1e-4, atol=1e-5)


@pytest.mark.filterwarnings("ignore:.* strongest features hold:UserWarning")
def test_a_selection_and_a_threshold_can_be_saved(fitted, tmp_path):
    smaller = fitted.select(5)
    smaller.threshold_ = 0.3
    smaller.save(tmp_path)
    np.testing.assert_array_equal(NCL.load(tmp_path).transform(X), smaller.transform(X))
    assert (fitted.threshold_, smaller.threshold_) == (0, 0.3)


LIMITS = [{}, {"target_active": 2}, {"target_active": 4, "max_active": 3}]


@pytest.mark.filterwarnings("ignore:.* strongest features hold:UserWarning")
@pytest.mark.parametrize("limits", LIMITS)
def test_the_saved_encoder_gives_what_transform_gives(limits, tmp_path):
    ncl = NCL(**{**QUICK, "max_steps": 20}, **limits).fit(X)
    some = X_NEW[:200].astype(np.float32)
    changed = pickle.loads(pickle.dumps(ncl)).set_params(max_active=np.int64(1))
    for name, estimator in {"own": ncl, "few": ncl.select(9), "one": changed}.items():
        expected = estimator.transform(some)
        assert (estimator.threshold_ > 0) == bool(limits)
        estimator.save(tmp_path / name)
        loaded = Encoder.load(tmp_path / name).encode(some).features
        np.testing.assert_array_equal(loaded, expected)
        np.testing.assert_array_equal(estimator.encoder_.encode(some).features, expected)
    assert (expected > 0).sum(axis=1).max() == 1


def test_a_missing_or_foreign_folder_is_named(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"config\.json is missing"):
        NCL.load(tmp_path)
    (tmp_path / "config.json").write_text('{"nonneg": "encoder"}')
    with pytest.raises(ValueError, match="does not describe a fitted NCL"):
        NCL.load(tmp_path)
    (tmp_path / "config.json").write_text('{"estimator": {"name": "NCL", "params": {}}}')
    with pytest.raises(ValueError, match=r"whole NCL \('n_axes'\); copy the folder again, or fit"):
        NCL.load(tmp_path)


def test_works_in_a_grid_search_over_a_pipeline():
    pipeline = make_pipeline(NCL(**{**QUICK, "max_steps": 40}), LogisticRegression())
    search = GridSearchCV(pipeline, {"ncl__n_neighbors": np.array([5, 10])}, cv=2).fit(X, Y)
    assert search.best_score_ > 0.9


def test_names_of_columns_and_output():
    ncl = NCL(**{**QUICK, "n_components": 3, "max_steps": 2, "nonnegative": "softplus"}).fit(X)
    assert ncl.get_feature_names_out().tolist() == ["ncl0", "ncl1", "ncl2"]


def test_progress_is_shown_when_asked_for(capsys):
    NCL(**{**QUICK, "max_steps": 3}).fit(X)
    assert capsys.readouterr().out == ""
    NCL(**{**QUICK, "max_steps": 3}, verbose=1).fit(X)
    assert "active per sample" in capsys.readouterr().out


def test_dead_features_are_counted_and_warned_of():
    with pytest.warns(
        UserWarning, match=r"of 400 features are dead .* lower n_components, temperature or lear"
    ):
        ncl = NCL(
            **{**QUICK, "n_components": 400, "learning_rate": 0.3, "nonnegative": "relu"}
        ).fit(X)
    alive = metrics.alive_features(ncl.transform(X))
    assert ncl.n_alive_ == int(alive.sum())
    assert ncl.n_dead_ == 400 - ncl.n_alive_


def test_a_row_of_zeros_has_features_of_zero():
    """Such as that of an empty text: it has no direction, whatever the centre is."""
    ncl = NCL(**QUICK).fit(X)
    some = np.array(X_NEW[:6], dtype=np.float32)
    some[[1, 4]] = 0
    before = some.copy()
    Z = ncl.transform(some)
    assert Z.any(axis=1).tolist() == [True, False, True, True, False, True]
    np.testing.assert_allclose(Z[[0, 2]], ncl.transform(X_NEW[[0, 2]]), atol=1e-5)
    np.testing.assert_array_equal(ncl.encoder_.encode(some).features.numpy(), Z)
    np.testing.assert_array_equal(ncl.transform(sparse.csr_array(some)), Z)
    np.testing.assert_array_equal(some, before)
    assert ncl.explain(some[1], some[0]).cosine == 0
