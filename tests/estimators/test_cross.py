"""What the estimator of two kinds of vectors promises: it learns, explains, keeps, complains."""

import math
import pickle
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
import torch
from scipy import sparse
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline

import nonneg
from nonneg import Encoder, metrics
from nonneg.estimators import CrossNCL
from nonneg.estimators import fit as heads
from nonneg.estimators.axes import Projection
from nonneg.estimators.inputs import CrossSettings

N_KINDS, N_THINGS, N_EACH = 12, 240, 3
QUICK = {"n_components": 64, "hidden": 32, "batch_size": 128, "max_steps": 200}
QUICK |= {"temperature": 0.2, "learning_rate": 3e-3, "random_state": 0}


def world(seed):
    """Things made of two of twelve kinds, seen once by one sense and three times by another."""
    rng = np.random.default_rng(seed)
    senses = [np.random.default_rng(s).standard_normal((N_KINDS, width)) for s, width in SENSES]
    made_of = np.array([rng.permutation(N_KINDS)[:2] for _ in range(N_THINGS)])
    kinds = np.zeros((N_THINGS, N_KINDS))
    kinds[np.arange(N_THINGS)[:, None], made_of] = 1
    seen = kinds @ senses[0] + 0.2 * rng.standard_normal((N_THINGS, 30)) + 1.0
    thing = np.repeat(np.arange(N_THINGS), N_EACH)
    told = kinds[thing] @ senses[1] + 0.2 * rng.standard_normal((len(thing), 20)) - 2.0
    return seen[thing], told, thing, kinds


SENSES = ((10, 30), (11, 20))
X, Y, THING, _ = world(1)
X_NEW, Y_NEW, THING_NEW, KINDS_NEW = world(2)


@pytest.fixture(scope="module")
def fitted():
    return CrossNCL(**QUICK).fit(X, Y, groups=THING)


def copied(fitted, **params):
    other = pickle.loads(pickle.dumps(fitted))
    return other.set_params(**params)


def found_kinds(both):
    """The share of both kinds of a thing that the thing found for its description has."""
    Z_x, Z_y = both.transform(X_NEW[::N_EACH], Y_NEW)
    nearest = both.neighbors(Z_y, Z_x, k=1).numbers[:, 0]
    return float((KINDS_NEW[nearest] * KINDS_NEW[THING_NEW]).sum(axis=1).mean() / 2)


def test_things_are_lost_before_and_found_after_by_their_descriptions(fitted):
    before = CrossNCL(**{**QUICK, "max_steps": 1}).fit(X, Y, groups=THING)
    assert found_kinds(before) < 0.3
    assert found_kinds(fitted) > 0.9
    assert fitted.history_[-1]["loss"] < fitted.history_[0]["loss"]
    assert fitted.n_iter_ == 200


def test_features_mean_the_same_on_both_sides(fitted):
    Z_x, Z_y = fitted.transform(X_NEW, Y_NEW)
    assert Z_x.min() >= 0
    assert Z_y.min() >= 0
    matched = metrics.match_features(Z_x, Z_y)
    alive = matched.partner >= 0
    own = np.arange(64)
    assert (matched.partner[alive] == own[alive]).mean() > 0.8
    assert metrics.active_per_sample(Z_x).value < 20


def test_one_switch_gives_signed_features():
    signed = CrossNCL(**QUICK, nonnegative="identity").fit(X, Y, groups=THING)
    assert signed.transform(X_NEW).min() < 0
    assert signed.transform_y(Y_NEW).min() < 0
    assert found_kinds(signed) > 0.9
    assert metrics.sparsity(signed.transform(X_NEW)).value < 0.01


def test_rows_of_a_group_are_no_negatives(monkeypatch):
    """The loss of each step is that of loops which leave the own group out."""
    steps = []

    def spy(z_a, z_b, **how):
        loss = nonneg.info_nce(z_a, z_b, **how)
        steps.append((z_a.detach(), z_b.detach(), how["groups"], loss.item()))
        return loss

    monkeypatch.setattr(heads, "info_nce", spy)
    kind = np.repeat([0, 1], 6)
    settings = {"n_components": 4, "hidden": 0, "nonnegative": "softplus", "temperature": 0.5}
    CrossNCL(**settings, max_steps=3, random_state=0).fit(
        np.eye(2)[kind], np.eye(3)[kind], groups=[f"group {k}" for k in kind]
    )
    assert len(steps) == 3
    for z_a, z_b, groups, loss in steps:
        a, b = (z / z.norm(dim=1, keepdim=True) for z in (z_a, z_b))
        total = 0.0
        for i, own in enumerate(groups):
            wrong = [j for j, other in enumerate(groups) if other != own]
            assert len(wrong) == 6
            for one, other in ((a, b), (b, a)):
                cosines = [float(one[i] @ other[j]) for j in [i, *wrong]]
                terms = [math.exp(cosine / 0.5) for cosine in cosines]
                total -= math.log(terms[0] / sum(terms)) / 24
        assert loss == pytest.approx(total, rel=1e-4)


@pytest.mark.filterwarnings("ignore:.* features are dead:UserWarning")
def test_equal_captions_cannot_be_told_apart_unless_they_are_one_group():
    """Two things, two equal captions each: the best loss is log 2 alone, and near 0 in groups."""
    kind = np.array([0, 0, 1, 1])
    settings = {"n_components": 16, "hidden": 0, "noise": 0.0, "temperature": 0.1}
    settings |= {"max_steps": 100, "learning_rate": 0.05, "random_state": 0}
    alone, grouped = (
        CrossNCL(**settings).fit(np.eye(2)[kind], np.eye(3)[kind], groups=groups).history_[-1]
        for groups in (None, kind)
    )
    assert alone["loss"] == pytest.approx(math.log(2), abs=0.01)
    assert grouped["loss"] < 0.01


def test_labels_of_groups_can_be_anything():
    by_number = CrossNCL(**{**QUICK, "max_steps": 5}).fit(X, Y, groups=THING)
    names = [("thing", int(number)) if number % 2 else str(number) for number in THING]
    for groups in (names, torch.from_numpy(THING)):
        found = CrossNCL(**{**QUICK, "max_steps": 5}).fit(X, Y, groups=groups)
        np.testing.assert_array_equal(by_number.transform(X), found.transform(X))


def test_transform_gives_one_side_or_both(fitted):
    Z_x, Z_y = fitted.transform(X_NEW[:5], Y_NEW[:7])
    np.testing.assert_array_equal(Z_x, fitted.transform(X_NEW[:5]))
    np.testing.assert_array_equal(Z_y, fitted.transform_y(Y_NEW[:7]))
    assert Z_x.shape == (5, 64)
    assert Z_y.shape == (7, 64)
    assert Z_x.dtype == Z_y.dtype == np.float32


def test_output_is_the_same_for_every_kind_of_input(fitted, tmp_path):
    expected = fitted.transform(X_NEW, Y_NEW)
    paths = [tmp_path / "x.npy", tmp_path / "y.npy"]
    for path, side in zip(paths, (X_NEW, Y_NEW), strict=True):
        np.save(path, side)
    for inputs in (
        [np.load(path, mmap_mode="r") for path in paths],
        [sparse.csr_array(side) for side in (X_NEW, Y_NEW)],
        [np.asfortranarray(side) for side in (X_NEW, Y_NEW)],
    ):
        for found, wanted in zip(fitted.transform(*inputs), expected, strict=True):
            np.testing.assert_allclose(found, wanted, rtol=1e-3, atol=1e-4)
    thin = copied(fitted, sparse_output=True).transform(X_NEW, Y_NEW)
    for found, wanted in zip(thin, expected, strict=True):
        assert isinstance(found, sparse.csr_array)
        np.testing.assert_array_equal(found.toarray(), wanted)


def test_fits_sparse_vectors_and_memory_maps_as_dense_ones(tmp_path):
    dense = CrossNCL(**{**QUICK, "max_steps": 10}).fit(X, Y)
    np.save(tmp_path / "y.npy", Y)
    other = CrossNCL(**{**QUICK, "max_steps": 10}).fit(
        sparse.csr_array(X), np.load(tmp_path / "y.npy", mmap_mode="r")
    )
    for found, wanted in zip(other.transform(X, Y), dense.transform(X, Y), strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-3, atol=1e-3)


def test_contributions_add_up_to_the_cosine_across_sides(fitted):
    Z_x, Z_y = (Z.astype(float) for Z in fitted.transform(X_NEW, Y_NEW))
    a, b = Z_x[0], Z_y[1]
    found = fitted.explain(X_NEW[0], Y_NEW[1])
    assert found.cosine == pytest.approx(a @ b / np.linalg.norm(a) / np.linalg.norm(b), abs=1e-5)
    assert sum(s.contribution for s in found.shared) == pytest.approx(found.cosine)
    assert {s.feature for s in found.shared} == set(np.flatnonzero(a * b))
    contributions = [s.contribution for s in found.shared]
    assert all(one >= two for one, two in pairwise(contributions))
    assert {s.feature for s in fitted.explain(X_NEW[0]).shared} == set(np.flatnonzero(a))
    assert {s.feature for s in fitted.explain(y=Y_NEW[1]).shared} == set(np.flatnonzero(b))


def test_descriptions_of_both_sides_agree_and_name_the_features(fitted):
    both = copied(fitted)
    texts = [" and ".join(f"kind{k}" for k in np.flatnonzero(row)) for row in KINDS_NEW[THING_NEW]]
    of_x, of_y = both.describe(X_NEW, Y_NEW, texts=texts, n_words=1)
    named = [(a.words, b.words) for a, b in zip(of_x, of_y, strict=True) if a.name and b.name]
    assert len(named) > 10
    assert np.mean([a[0] == b[0] for a, b in named]) > 0.75
    assert both.feature_names_ == [description.name for description in of_y]
    shared = both.explain(X_NEW[0], Y_NEW[0]).shared[0]
    assert shared.name.split(" (")[0] in texts[0]
    without = both.edit(both.transform(X_NEW[:1]), remove=[shared.name])
    assert without[0, shared.feature] == 0


def test_a_row_with_several_partners_is_described_once(fitted):
    twice = np.concatenate([X_NEW[:50], X_NEW[:50]])
    of_x, of_y = copied(fitted).describe(twice, Y_NEW[:100], labels=list(range(100)))
    assert max(number for description in of_x for number in description.top) < 50
    assert max(number for description in of_y for number in description.top) >= 50


def test_target_active_and_max_active_hold_on_both_sides(fitted):
    aimed = CrossNCL(**QUICK, target_active=3).fit(X, Y, groups=THING)
    for Z in aimed.transform(X_NEW, Y_NEW):
        assert metrics.active_per_sample(Z).value == pytest.approx(3, rel=0.2)
    for Z in copied(fitted, max_active=2).transform(X_NEW, Y_NEW):
        assert (Z > 0).sum(axis=1).max() == 2


def test_saved_encoders_give_what_transform_gives(tmp_path):
    limits = {"target_active": 3, "max_active": 4, "max_steps": 20}
    both = CrossNCL(**(QUICK | limits | {"n_components": 24})).fit(X, Y, groups=THING)
    assert min(both.threshold_) > 0
    some = (X_NEW[:200].astype(np.float32), Y_NEW[:200].astype(np.float32))
    both.save(tmp_path)
    assert CrossNCL.load(tmp_path).threshold_ == both.threshold_
    for side, vectors, Z in zip("xy", some, both.transform(*some), strict=True):
        assert (Z > 0).sum(axis=1).max() == 4
        features = Encoder.load(tmp_path / side).encode(vectors).features
        np.testing.assert_array_equal(features, Z)


def test_saved_pickled_and_cloned(fitted, tmp_path):
    both = copied(fitted)
    both.describe(X, Y, labels=THING)
    both.save(tmp_path)
    files = sorted(str(p.relative_to(tmp_path)) for p in tmp_path.rglob("*") if p.is_file())
    assert files == [
        "config.json",
        "x/config.json",
        "x/model.safetensors",
        "y/config.json",
        "y/model.safetensors",
    ]
    state = torch.get_rng_state()
    loaded = CrossNCL.load(tmp_path)
    assert torch.equal(torch.get_rng_state(), state)
    for found, wanted in zip(loaded.transform(X, Y), both.transform(X, Y), strict=True):
        np.testing.assert_array_equal(found, wanted)
    for name in ("n_axes_", "threshold_", "n_alive_", "n_iter_", "feature_names_", "history_"):
        assert getattr(loaded, name) == getattr(both, name)
    assert loaded.get_params() == both.get_params() == clone(both).get_params()
    assert (loaded.n_features_in_, loaded.n_features_y_in_) == (30, 20)
    np.testing.assert_array_equal(loaded.rank_, both.rank_)
    alone = Encoder.load(tmp_path / "y", backbone=Projection(20, loaded.n_axes_[1]))
    features = alone.encode(Y_NEW.astype(np.float32)).features
    np.testing.assert_allclose(features, fitted.transform_y(Y_NEW), rtol=1e-4, atol=1e-5)


def test_missing_and_foreign_folders_are_named(fitted, tmp_path):
    with pytest.raises(FileNotFoundError, match=r"no estimator in .*config\.json is missing"):
        CrossNCL.load(tmp_path)
    fitted.save(tmp_path)
    with pytest.raises(ValueError, match="does not describe a fitted NCL"):
        nonneg.NCL.load(tmp_path)
    (tmp_path / "y" / "config.json").unlink()
    with pytest.raises(FileNotFoundError, match="a part of the estimator is missing"):
        CrossNCL.load(tmp_path)


@pytest.mark.parametrize(
    "how", [{"dtype": torch.bfloat16}, {"dtype": torch.float32, "requires_grad": True}]
)
def test_tensors_give_what_their_numbers_give(how):
    tensors = [torch.tensor(side, **how) for side in (X, Y)]
    arrays = [tensor.detach().float().numpy() for tensor in tensors]
    told = CrossNCL(**{**QUICK, "max_steps": 5}).fit(*tensors, groups=THING)
    expected = CrossNCL(**{**QUICK, "max_steps": 5}).fit(*arrays, groups=THING)
    for found, wanted in zip(told.transform(*tensors), expected.transform(*arrays), strict=True):
        np.testing.assert_array_equal(found, wanted)
    assert told.explain(*(t[0] for t in tensors)) == expected.explain(*(a[0] for a in arrays))
    kinds = [f"thing {number}" for number in THING]
    assert told.describe(*tensors, labels=kinds) == expected.describe(*arrays, labels=kinds)


def test_a_seed_gives_the_same_and_global_state_is_left_alone():
    torch.manual_seed(3)
    state = torch.get_rng_state()
    one, two, other = (
        CrossNCL(**{**QUICK, "max_steps": 10, "random_state": seed}).fit(X, Y).transform(X)
        for seed in (0, 0, 1)
    )
    np.testing.assert_array_equal(one, two)
    assert not np.array_equal(one, other)
    assert torch.equal(torch.get_rng_state(), state)


def test_inputs_stay_as_they_are():
    before = X.copy(), Y.copy(), THING.copy()
    CrossNCL(**{**QUICK, "max_steps": 2}).fit(X, Y, groups=THING)
    for now, then in zip((X, Y, THING), before, strict=True):
        np.testing.assert_array_equal(now, then)


def test_works_in_a_pipeline_with_names_of_columns(capsys):
    labels = (Y[:, 0] > Y[:, 0].mean()).astype(int)
    small = {**QUICK, "n_components": 12, "max_steps": 60, "verbose": 1}
    pipeline = make_pipeline(CrossNCL(**small), LogisticRegression()).fit(X, labels)
    assert pipeline.score(X, labels) > 0.8
    assert "active per sample" in capsys.readouterr().out
    assert pipeline[0].get_feature_names_out().tolist() == [f"crossncl{i}" for i in range(12)]


def with_nan(side):
    bad = side.copy()
    bad[[4, 17], 3] = np.nan
    return bad


@pytest.mark.parametrize(
    ("settings", "x", "y", "groups", "message"),
    [
        ({}, with_nan(X), Y, None, "X holds NaN or infinity .* in 2 of 720 rows: 4, 17"),
        ({}, X, with_nan(Y), None, "y holds NaN or infinity .* in 2 of 720 rows: 4, 17"),
        ({}, X, np.full((720, 3), 0.1), None, "y is constant: all 720 rows are equal"),
        ({}, np.full((720, 3), 0.1), Y, None, "X is constant: all 720 rows are equal"),
        ({}, X, Y[:9], None, "X has 720 rows, but y has 9; row i of y belongs to row i of X"),
        ({}, X, None, None, "requires y to be passed"),
        ({}, X, Y.reshape(720, 4, 5), None, "dim 3"),
        ({}, X, Y, THING[:9], "groups has 9 entries for 720 rows"),
        ({}, X, Y, np.zeros(720), "groups puts all 720 rows into one group"),
        ({"temperature": -1.0}, X, Y, None, "setting 'temperature'.*got -1.0"),
        ({"noise": -1.0}, X, Y, None, "setting 'noise'.*got -1.0"),
        ({"denoise": "auto"}, X, Y, None, "denoise.*got 'auto'"),
        ({"nonnegative": "abs"}, X, Y, None, "unknown transform"),
        ({"target_active": 64}, X, Y, None, "must be below n_components=64"),
    ],
)
def test_errors_say_what_is_wrong(settings, x, y, groups, message):
    with pytest.raises(ValueError, match=message):
        CrossNCL(**{**QUICK, **settings}).fit(x, y, groups=groups)


def test_errors_of_types_and_after_fit(fitted):
    with pytest.raises(TypeError, match="groups must be one label per row"):
        CrossNCL(**QUICK).fit(X, Y, groups=Y)
    for method in (CrossNCL().transform, CrossNCL().transform_y):
        with pytest.raises(ValueError, match="not fitted"):
            method(X)
    with pytest.raises(ValueError, match="X has 3 features, but CrossNCL is expecting 30"):
        fitted.transform(X[:, :3])
    with pytest.raises(ValueError, match="y has 30 columns, but was fitted with 20"):
        fitted.transform(X, X)
    with pytest.raises(ValueError, match="one vector at a time, got 2 rows"):
        fitted.explain(X[:2], Y[0])
    with pytest.raises(ValueError, match="needs a row of X, a row of y, or both"):
        fitted.explain()


@pytest.mark.parametrize("n_moved", range(5))
def test_an_interrupted_save_is_never_read_as_a_whole_one(fitted, tmp_path, monkeypatch, n_moved):
    """Five files are moved into place; the old estimator is there until the first of them is."""
    other = CrossNCL(**{**QUICK, "max_steps": 3, "nonnegative": "identity"}).fit(X, Y)
    other.save(tmp_path)
    real, moved = Path.replace, []

    def failing(path, target):
        if ".unfinished" in path.parts and not path.name.startswith("."):
            if len(moved) == n_moved:
                raise KeyboardInterrupt
            moved.append(target)
        return real(path, target)

    monkeypatch.setattr(Path, "replace", failing)
    with pytest.raises(KeyboardInterrupt):
        fitted.save(tmp_path)
    monkeypatch.undo()
    if moved:
        with pytest.raises(ValueError, match="a later save was interrupted, files of two were"):
            CrossNCL.load(tmp_path)
    else:
        np.testing.assert_array_equal(CrossNCL.load(tmp_path).transform(X), other.transform(X))
    fitted.save(tmp_path)
    np.testing.assert_array_equal(CrossNCL.load(tmp_path).transform(X), fitted.transform(X))
    assert not (tmp_path / ".unfinished").exists()


def settings_of(**params):
    return CrossSettings.of(CrossNCL(**params).get_params())


@pytest.mark.parametrize(
    ("given", "hidden", "temperature", "learning_rate"),
    [
        ({}, 0, 0.05, 6e-3),
        ({"nonnegative": "identity"}, 0, 0.05, 1e-3),
        ({"hidden": 32}, 32, 0.05, 1e-3),
        ({"hidden": 0, "temperature": 0.3}, 0, 0.3, 6e-3),
        ({"learning_rate": 0.02}, 0, 0.05, 0.02),
        ({"hidden": 8, "temperature": 0.07, "learning_rate": 0.5}, 8, 0.07, 0.5),
    ],
)
def test_auto_is_a_number_and_a_number_given_is_kept(given, hidden, temperature, learning_rate):
    chosen = settings_of(**given)
    assert (chosen.hidden, chosen.temperature, chosen.learning_rate) == (
        hidden,
        temperature,
        learning_rate,
    )


def test_auto_fits_as_its_numbers_do_and_stays_auto():
    short = {"n_components": 16, "max_steps": 5, "random_state": 0}
    auto = CrossNCL(**short).fit(X, Y, groups=THING)
    given = CrossNCL(**short, hidden=0, temperature=0.05, learning_rate=6e-3)
    np.testing.assert_array_equal(
        auto.transform(X_NEW), given.fit(X, Y, groups=THING).transform(X_NEW)
    )
    assert auto.get_params()["hidden"] == "auto"


@pytest.mark.parametrize(
    ("given", "n_steps"),
    [({}, 600), ({"hidden": 4}, 300), ({"max_steps": 7}, 7), ({"max_epochs": 1}, 5)],
)
def test_linear_maps_take_twice_the_steps_unless_these_are_given(given, n_steps):
    both = CrossNCL(8, batch_size=128, random_state=0, **given).fit(X, Y, groups=THING)
    assert both.n_iter_ == n_steps


@pytest.mark.parametrize("setting", ["hidden", "temperature", "learning_rate"])
def test_other_words_than_auto_are_refused(setting):
    with pytest.raises(ValueError, match=setting):
        CrossNCL(**{setting: "automatic"}).fit(X, Y)
