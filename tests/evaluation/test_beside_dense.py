"""Features beside their vectors and a PCA: closed forms, order, loops that share no code."""

import math

import numpy as np
import pytest
from scipy import sparse

from nonneg import metrics
from nonneg.evaluation import Figure, beside_dense
from nonneg.evaluation.beside_dense import gain_and_loss


def samples(n_train=40, n_test=25, seed=0):
    """Vectors of three kinds with noise, and sparse features of other sizes."""
    rng = np.random.default_rng(seed)
    y = rng.integers(3, size=n_train + n_test)
    X = np.eye(3, 6)[y] + 0.6 * rng.standard_normal((len(y), 6)) + 1
    Z = np.maximum(np.eye(3, 5)[y] + 0.8 * rng.standard_normal((len(y), 5)) - 0.3, 0)
    split = slice(None, n_train), slice(n_train, None)
    return {
        f"{name}_{part}": array[rows]
        for name, array in (("X", X), ("Z", Z), ("y", y))
        for part, rows in zip(("train", "test"), split, strict=True)
    }


def cosine(u, v):
    lengths = math.hypot(*u) * math.hypot(*v)
    # Rounded, so that cosines that are equal on paper are equal here.
    return round(sum(a * b for a, b in zip(u, v, strict=True)) / lengths, 12)


def slow_found(train, test, k, *, alone):
    found = []
    for i, query in enumerate(test):
        if not any(query):
            found.append([])
            continue
        near = [(cosine(query, row), -j) for j, row in enumerate(train) if any(row)]
        near = [entry for entry in near if not (alone and -entry[1] == i)]
        found.append([-minus for _, minus in sorted(near, reverse=True)[:k]])
    return found


def slow_figures(found, of_vectors, y_gallery, y_query, k):
    n = len(found)
    hits = [[y_gallery[j] == y for j in row] for row, y in zip(found, y_query, strict=True)]
    kept = [len(set(a) & set(b)) / len(b) for a, b in zip(found, of_vectors, strict=True) if b]
    return (
        sum(sum(row) for row in hits) / (n * k),
        sum(row[0] for row in hits if row) / n,
        sum(kept) / len(kept),
    )


def slow_pca(train, test, n_axes):
    centre = train.mean(0)
    axes = np.linalg.svd(train - centre)[2][:n_axes]
    return (train - centre) @ axes.T, (test - centre) @ axes.T


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("k", [1, 4, 24])
def test_agrees_with_loops(seed, k):
    given = samples(seed=seed)
    given["Z_test"][3] = 0
    given["Z_train"][5] = 0
    given["X_test"][7] = 0
    found = beside_dense(**given, k=k, m=6)
    n_active = np.count_nonzero(given["Z_test"]) / 25
    n_axes = round(n_active)
    assert found.pca.n_numbers == n_axes != 1
    sides = {
        "vectors": (given["X_train"], given["X_test"]),
        "features": (given["Z_train"], given["Z_test"]),
        "pca": slow_pca(given["X_train"], given["X_test"], n_axes),
    }
    of_vectors = {}
    for name, (train, test) in sides.items():
        measured = getattr(found, name)
        galleries = {"in_train": (train, given["y_train"]), "in_test": (test, given["y_test"])}
        for where, (gallery, labels) in galleries.items():
            numbers = slow_found(gallery.tolist(), test.tolist(), k, alone=where == "in_test")
            of_vectors.setdefault(where, numbers)
            expected = slow_figures(numbers, of_vectors[where], labels, given["y_test"], k)
            assert getattr(measured, where) == pytest.approx(expected), (name, where)
        expected = metrics.top_purity(test, given["y_test"], 6).value
        assert measured.top_purity == pytest.approx(expected, nan_ok=True)
        assert measured.n_zero_rows == sum(not row.any() for row in test)
    assert found.features.n_zero_rows > 0 == found.pca.n_zero_rows
    assert found.features.active_per_sample == pytest.approx(n_active)
    assert found.vectors.in_train.kept == found.vectors.in_test.kept == 1


def test_of_two_kinds_one_feature_says_what_noise_hides():
    """Half the samples of a kind have their vector among those of the other kind."""
    kinds = np.arange(40) % 2
    Z = np.eye(2)[kinds]
    looks = np.where(np.arange(40) % 4 < 2, kinds, 1 - kinds)
    X = np.array([[3.0, 1, 1, 1], [-3, 1, 1, 1]])[looks]
    found = beside_dense(X, Z, X, Z, kinds, kinds, k=20, m=10)
    assert (found.features.in_train.precision, found.vectors.in_train.precision) == (1, 0.5)
    assert (found.features.top_purity, found.vectors.top_purity) == (1, pytest.approx(0.5))
    assert found.features.in_train.kept == 0.5
    assert found.margins["precision"] == 0  # every sample gains a half
    assert "precision@20 100.0 %, better by 50.0 points (vectors 50.0 %, PCA" in found.sentence
    assert "top-10 purity 1, better by 0.5 (0.5, 0.5)" in found.sentence


@pytest.mark.parametrize(
    ("n_active", "n_features", "size"), [(1, 9, 8), (3, 9, 24), (9, 9, 36), (2, 3, 12)]
)
def test_sizes_are_those_of_the_smaller_way_to_store(n_active, n_features, size):
    Z = np.zeros((12, n_features))
    Z[:, :n_active] = 1 + np.random.default_rng(0).random((12, n_active))
    X = np.random.default_rng(1).random((12, 7))
    found = beside_dense(X, Z, X, Z, k=2)
    assert found.features.bytes_per_sample == size
    assert found.vectors.bytes_per_sample == 28
    n_axes = min(n_active, 7)
    assert (found.pca.n_numbers, found.pca.bytes_per_sample) == (n_axes, 4 * n_axes)


@pytest.mark.parametrize("n_train", [3, 30])
def test_a_pca_has_no_more_axes_than_there_are(n_train):
    given = samples(n_train=n_train)
    Z = {part: np.full((len(given[f"X_{part}"]), 20), 1.0) for part in ("train", "test")}
    found = beside_dense(given["X_train"], Z["train"], given["X_test"], Z["test"], k=2)
    assert found.pca.n_numbers == min(n_train - 1, 6)
    nothing = {part: 0 * Z[part] for part in Z}
    found = beside_dense(given["X_train"], nothing["train"], given["X_test"], nothing["test"], k=2)
    assert found.pca.n_numbers == 1
    assert found.features.in_train.kept == 0
    assert found.sentence.startswith("0 active numbers per sample instead of 6 (0 bytes instead")
    assert found.sentence.endswith("; 25 test samples have no active feature.")


def test_order_of_samples_and_features_and_length_of_rows():
    given, rng = samples(), np.random.default_rng(0)
    for part in ("train", "test"):  # no two samples equally near, of which the first would count
        given[f"Z_{part}"] += 0.1 * rng.random(given[f"Z_{part}"].shape)
    before = beside_dense(**given, k=3, m=5)
    orders = {part: rng.permutation(len(given[f"y_{part}"])) for part in ("train", "test")}
    shuffled = {key: array[orders[key[2:]]] for key, array in given.items()}
    columns = rng.permutation(5)
    for part in orders:
        lengths = rng.uniform(0.5, 2, size=(len(orders[part]), 1))
        shuffled[f"Z_{part}"] = lengths * shuffled[f"Z_{part}"][:, columns]
    after = beside_dense(**shuffled, k=3, m=5)
    for key, figure in before.figures().items():
        assert after.figures()[key].value == pytest.approx(figure.value), key
        for name in ("vectors", "pca"):
            assert after.figures()[key].beside[name] == pytest.approx(figure.beside[name]), key


@pytest.mark.parametrize("scale", [1e-30, 1e30])
def test_vectors_of_any_size(scale):
    given = samples()
    before = beside_dense(**given, k=3)
    for part in ("train", "test"):
        given[f"X_{part}"] = given[f"X_{part}"].astype(np.float32) * np.float32(scale)
    assert beside_dense(**given, k=3).pca == before.pca


def test_axes_of_vectors_far_from_zero_are_exact():
    given = samples(n_train=500)
    for part in ("train", "test"):
        given[f"X_{part}"] = (given[f"X_{part}"] + 1000).astype(np.float32)
    found = beside_dense(**given, k=5).pca
    X = (given[f"X_{part}"].astype(float) for part in ("train", "test"))
    train, test = slow_pca(*X, found.n_numbers)
    numbers = slow_found(train.tolist(), test.tolist(), 5, alone=False)
    expected = slow_figures(numbers, numbers, given["y_train"], given["y_test"], 5)
    assert found.in_train[:2] == pytest.approx(expected[:2])


def test_sparse_and_dense_inputs_agree_and_stay_as_they_were():
    given = samples()
    copies = {key: array.copy() for key, array in given.items()}
    dense = beside_dense(**given, k=3, m=5)
    for key, array in copies.items():
        np.testing.assert_array_equal(given[key], array)
    rows = {key: sparse.csr_array(given[key]) for key in given if key[0] != "y"}
    assert beside_dense(**given | rows, k=3, m=5) == dense


def test_equal_vectors_have_no_axes_and_find_the_first():
    X, Z = np.ones((30, 4)), np.eye(3)[np.arange(30) % 3]
    y = np.arange(30) % 3
    found = beside_dense(X, Z, X, Z, y, y, k=5)
    assert found.pca.n_zero_rows == 30
    assert found.pca.in_train.precision == 0
    assert found.vectors.in_train.nearest == pytest.approx(1 / 3)


def test_without_labels_sizes_and_neighbours_are_left():
    given = samples()
    found = beside_dense(*(given[f"{a}_{part}"] for part in ("train", "test") for a in "XZ"), k=4)
    named = beside_dense(**given, k=4)
    assert found.features.in_train.kept == named.features.in_train.kept
    assert math.isnan(found.features.in_train.precision)
    measured = [key for key, figure in found.figures().items() if figure.value is not None]
    assert measured == ["beside_active", "beside_bytes", "beside_train_kept", "beside_test_kept"]
    empty = found.figures()["beside_top20_purity"]
    assert empty.beside["because"] == "there are no labels"
    kept = 100 * found.features.in_train.kept
    assert (
        f": {kept:.1f} % of the 4 nearest training samples by the vectors are among the 4 nearest "
        f"by the features (PCA of {found.pca.n_numbers} numbers: "
    ) in found.sentence


def test_too_few_test_samples_leave_purity_out_and_say_so():
    given = samples(n_test=20)
    found = beside_dense(**given, k=4)
    assert found.figures()["beside_top20_purity"].beside["because"] == (
        "there are only 20 samples; it takes more than 20"
    )
    assert math.isnan(found.vectors.top_purity)  # all numbers are active, but for all samples
    assert "purity" not in found.sentence
    assert "purity" in beside_dense(**given, k=4, m=5).sentence


def test_the_purity_of_a_few_of_many_features_is_left_out():
    given = samples(n_test=60)
    for part in ("train", "test"):  # five features that are on often, and many that are on for one
        Z = given[f"Z_{part}"]
        given[f"Z_{part}"] = np.hstack([Z + 1, np.eye(len(Z), 30)])
    found = beside_dense(**given, m=20)
    assert math.isnan(found.features.top_purity)
    figure = found.figures()["beside_top20_purity"]
    assert figure.beside["because"] == "too few features are on for 20 of the 60 samples"
    assert not math.isnan(found.vectors.top_purity)


@pytest.mark.parametrize(
    ("precision", "margin", "words"),
    [
        (0.8, 0.05, "80.0 %, better by 10.0 points ("),
        (0.6, 0.05, "60.0 %, worse by 10.0 points ("),
        (0.72, 0.03, "72.0 %, no significant difference ("),
        (0.68, 0.03, "68.0 %, no significant difference ("),
        (0.7, 0.0, "70.0 %, the same ("),
    ],
)
def test_better_and_worse_are_said_where_they_are_significant(precision, margin, words):
    figures = beside_dense(**samples(), k=10).figures()
    beside = {"k": 10, "vectors": 0.7, "pca": 0.5, "margin": margin}
    figures["beside_train_precision"] = Figure.of("beside_train_precision", precision, **beside)
    assert f"precision@10 {words}vectors 70.0 %, PCA of 2 numbers 50.0 %); " in gain_and_loss(
        figures
    )


def test_a_margin_is_that_of_the_paired_differences():
    kinds = np.arange(8) % 2
    Z = np.eye(2)[kinds]
    X = np.eye(2)[np.r_[1, kinds[1:]]]  # the first test sample looks like the other kind
    found = beside_dense(np.eye(2)[kinds], Z, X, Z, kinds, kinds, k=3)
    differences = np.r_[1.0, np.zeros(7)]
    expected = 1.96 * differences.std(ddof=1) / math.sqrt(8)
    assert found.margins == pytest.approx({"precision": expected, "nearest": expected})
    assert "1-NN 100.0 %, no significant difference (87.5 %" in found.sentence


WRONG = {
    "y_train": (None, "y_test was given without y_train; pass both or neither"),
    "y_test": (None, "y_train was given without y_test; pass both or neither"),
    "Z_test": (
        np.ones((24, 5)),
        "X_test has 25 samples, Z_test has 24; pass the features of the same samples",
    ),
    "X_test": (
        np.ones((25, 7)),
        "X_train has 6 columns, X_test has 7; both come from the same model",
    ),
    "Z_train": (np.ones((40, 4)), "Z_train has 4 columns, Z_test has 5; both come from the same"),
    "X_train": (np.full((40, 6), np.nan), "X_train holds nan in row 0, column 0; features must be"),
    "k": (25, "k is 25, more than 24, the number of other test samples"),
    "m": (0, "m is 0; it must be at least 1"),
}


@pytest.mark.parametrize("name", WRONG)
def test_what_does_not_fit_is_refused_in_one_sentence(name):
    value, sentence = WRONG[name]
    with pytest.raises(ValueError, match=f"^{sentence}"):
        beside_dense(**samples() | {name: value})


def test_few_samples_are_refused():
    with pytest.raises(ValueError, match=r"^k is 10, more than 5, the number of training samples$"):
        beside_dense(**samples(n_train=5))
    with pytest.raises(ValueError, match=r"^X_test has 1 sample; it takes at least 2$"):
        beside_dense(**samples(n_test=1), k=1)


def test_figures_say_what_they_are_read_against():
    figure = beside_dense(**samples(), k=4).figures()["beside_train_nearest"]
    assert figure.is_rate
    assert figure.beside["n_train"] == 40
    assert " by the vectors, " in figure.beside_text()
    assert "4 neighbours" in figure.beside_text()
