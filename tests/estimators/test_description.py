import json
from itertools import permutations

import numpy as np
import pytest
import torch
from scipy import sparse

from nonneg.estimators.description import (
    describe_features,
    first_of_equal_rows,
    two_groups,
)

TEXTS = ["pay my phone bill", "pay the water bill", "book a flight", "flight to rome please", "hm"]
Z = np.array([[3.0, 0, 0], [1.0, 0.5, 0], [0, 2.0, 0], [0, 1.0, 0], [0, 0, 0]])


def test_strongest_come_first_and_only_active_ones():
    found = describe_features(Z, labels=list("abccd"))
    assert [d.top for d in found] == [(0, 1), (2, 3, 1), ()]
    assert describe_features(Z, n_top=2)[1].top == (2, 3)
    assert found[2].name == ""
    assert found[1].label_mix == (("c", pytest.approx(2 / 3)), ("b", pytest.approx(1 / 3)))
    assert [d.name for d in found[:2]] == ["a", "c"]


def test_features_are_named_by_the_words_that_set_their_texts_apart():
    found = describe_features(Z, texts=TEXTS)
    assert set(found[0].words) == {"pay", "bill"}
    assert found[1].words == ("flight",)
    assert found[1].name == "flight"
    assert found[2].words == ()
    assert len(describe_features(Z, texts=TEXTS, n_words=1)[0].words) == 1


def test_equal_samples_count_once_with_all_their_texts():
    Z = np.repeat(np.eye(2), 12, axis=0)  # six things of each kind, with two texts each
    same_as = np.arange(24) // 2 * 2
    texts = ["a thing", "the car"] * 6 + ["a thing", "the boat"] * 6
    found = describe_features(Z, texts=texts, same_as=same_as)
    assert found[0].top == (0, 2, 4, 6, 8, 10)
    assert found[0].words == ("car",)
    assert found[1].words == ("boat",)


@pytest.mark.parametrize("kind", [np.array, sparse.csr_array, sparse.coo_array])
def test_of_equal_rows_the_first_is_found(kind):
    rows = kind([[0, 1.0], [2, 0], [0, 1], [0, 0], [2, 0], [0, 2]])
    assert first_of_equal_rows(rows).tolist() == [0, 1, 0, 3, 1, 5]


def test_equal_rows_are_found_whatever_is_stored():
    """A stored zero is a zero, and the caller's matrix stays as it is."""
    rows = sparse.csr_array((np.array([2.0, 1, 0, 1]), [1, 0, 1, 0], [0, 2, 4]), shape=(2, 2))
    rows.data[0] = 0
    before = rows.indices.copy()
    assert first_of_equal_rows(rows).tolist() == [0, 0]
    assert rows.indices.tolist() == before.tolist()


def test_sparse_features_give_the_same():
    assert describe_features(sparse.csr_array(Z), texts=TEXTS) == describe_features(Z, texts=TEXTS)


def test_tiles_give_the_same(monkeypatch):
    rng = np.random.default_rng(0)
    many = rng.random((300, 7)) * (rng.random((300, 7)) < 0.3)
    unit = many / np.linalg.norm(many, axis=1, keepdims=True).clip(1e-12)
    monkeypatch.setattr("nonneg.metrics.inputs._TILE_ENTRIES", 7 * 13)
    for feature, description in enumerate(describe_features(many, n_top=9)):
        assert list(description.top) == np.argsort(-unit[:, feature], kind="stable")[:9].tolist()


@pytest.mark.parametrize("kind", [np.array, torch.tensor, list, lambda x: list(np.array(x))])
def test_labels_of_every_kind_become_plain_values(kind):
    found = describe_features(Z, labels=kind([7, 7, 8, 8, 9]))
    assert found == describe_features(Z, labels=[7, 7, 8, 8, 9])
    assert json.loads(json.dumps(found[1].label_mix)) == [[8, 2 / 3], [7, 1 / 3]]
    words = describe_features(Z, labels=np.array(list("aabbc")))[1].label_mix
    assert [type(label) for label, _ in words] == [str, str]


def test_wrong_lengths_are_named():
    with pytest.raises(ValueError, match="texts has 2 entries for 5 samples"):
        describe_features(Z, texts=["a", "b"])
    with pytest.raises(ValueError, match="labels has 6 entries for 5 samples"):
        describe_features(Z, labels=range(6))
    with pytest.raises(ValueError, match="hold no word to name features by"):
        describe_features(Z, texts=["?"] * 5)


def test_texts_that_set_nothing_apart_leave_the_label():
    same = np.ones((5, 2))
    assert [d.name for d in describe_features(same, texts=TEXTS, labels=list("aaabb"))] == [
        "a",
        "a (2)",
    ]
    for same_as in (None, np.array([0, 0, 2, 3, 4])):
        found = describe_features(np.zeros((5, 2)), texts=TEXTS, same_as=same_as)
        assert [d.name for d in found] == ["", ""]
    assert all(d.words == () for d in describe_features(Z, texts=TEXTS, n_words=0))


def test_what_cannot_be_described_is_named():
    with pytest.raises(TypeError, match="texts holds NoneType in place 1; give a text each"):
        describe_features(Z, texts=[TEXTS[0], None, *TEXTS[2:]])
    with pytest.raises(ValueError, match="n_top is 0; it must be at least 1"):
        describe_features(Z, texts=TEXTS, n_top=0)
    with pytest.raises(ValueError, match="n_words is -1; it must be at least 0"):
        describe_features(Z, texts=TEXTS, n_words=-1)


def test_words_of_all_texts_are_no_name():
    n = 400
    Z = np.eye(4)[np.arange(n) % 4]
    texts = [f"a scan of the digit {i % 4}" for i in range(n)]
    assert [d.name for d in describe_features(Z, texts=texts)] == [""] * 4
    kinds = [f"kind {i % 4}" for i in range(n)]
    by_label = describe_features(Z, texts=texts, labels=kinds)
    assert [d.name for d in by_label] == ["kind 0", "kind 1", "kind 2", "kind 3"]
    assert all(d.words == () for d in by_label)


@pytest.mark.parametrize("kind", [np.array, torch.tensor])
def test_labels_are_one_a_sample(kind):
    with pytest.raises(ValueError, match=r"labels has shape \(5, 2\); give one per sample, \(5,\)"):
        describe_features(Z, labels=kind([[0, 1]] * 5))
    for row in ([0, 1], kind([0, 1])):
        with pytest.raises(
            ValueError, match=r"labels holds .* in place 4; give one number or text"
        ):
            describe_features(Z, labels=["a", "b", "c", "d", row])


@pytest.mark.parametrize("nothing", [None, np.nan, np.float32("nan"), torch.tensor(np.nan)])
def test_missing_labels_are_refused(nothing):
    with pytest.raises(
        ValueError, match=r"^labels has no label \(NaN or None\) in 2 of 5 rows: 1, 3"
    ):
        describe_features(Z, labels=["a", nothing, "b", nothing, "c"])
    with pytest.raises(ValueError, match="in 5 of 5 rows: 0, 1, 2, 3, 4; leave these rows out"):
        describe_features(Z, labels=np.full(5, np.nan))


@pytest.mark.parametrize("kind", [list, np.array, torch.tensor])
def test_whole_numbers_as_labels_are_not_taken_for_numbers_of_features(kind):
    found = describe_features(Z, labels=kind([7, 7, 0, 0, 9]))
    assert [d.name for d in found] == ["label 7", "label 0", ""]
    assert found[0].label_mix == ((7, 1.0),)
    assert [d.name for d in describe_features(Z, labels=["7", "7", "0", "0", "9"])] == [
        "7",
        "0",
        "",
    ]
    assert describe_features(Z, labels=[True, True, False, False, True])[0].name == "True"


def test_scores_stand_beside_their_words():
    found = describe_features(Z, texts=TEXTS)
    for description in found:
        assert len(description.scores) == len(description.words)
        assert all(score > 0 for score in description.scores)
        assert list(description.scores) == sorted(description.scores, reverse=True)


def planted_features(seed=0, n_kinds=10, n_each=30):
    """A pure feature per kind of sample, and mixed ones that are on for two kinds each."""
    rng = np.random.default_rng(seed)
    kind = rng.permutation(np.repeat(np.arange(n_kinds), n_each))
    centres = 5 * np.linalg.qr(rng.standard_normal((24, n_kinds)))[0].T  # all at right angles
    vectors = centres[kind] + 0.7 * rng.standard_normal((len(kind), 24)) + 2.0
    pure = (kind[:, None] == np.arange(n_kinds)) * rng.uniform(0.5, 1, (len(kind), n_kinds))
    mixed = pure[:, ::2] + pure[:, 1::2]
    texts = [f"thing{k} stuff{k} and more of it" for k in kind]
    return np.hstack([pure, mixed]), vectors, texts, kind


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("kind_of_array", [np.array, sparse.csr_array, torch.tensor])
def test_planted_mixed_features_are_found_and_pure_ones_are_not(seed, kind_of_array):
    Z, vectors, _, _ = planted_features(seed)
    found = describe_features(Z, vectors=kind_of_array(vectors))
    assert [d.is_mixed for d in found] == [False] * 10 + [True] * 5
    assert not any(d.is_mixed for d in describe_features(Z))


def test_the_name_of_a_mixed_feature_names_both_groups():
    Z, vectors, texts, kind = planted_features()
    described = describe_features(Z, vectors=vectors, texts=texts)
    for pair, feature in enumerate(described[10:]):
        both = {f"thing{k} stuff{k}" for k in (2 * pair, 2 * pair + 1)}
        assert set(feature.words) == both
        assert feature.name in (" + ".join(order) + " (mixed)" for order in permutations(both))
    by_label = describe_features(Z, vectors=vectors, labels=[f"kind {k}" for k in kind])
    assert by_label[10].name in ("kind 0 + kind 1 (mixed)", "kind 1 + kind 0 (mixed)")
    assert by_label[0].name == "kind 0"


def test_groups_do_not_depend_on_order_length_or_rotation():
    rng = np.random.default_rng(0)
    vectors = np.repeat([[3.0, 0, 0, 1], [0, 3.0, 0, 1]], [7, 9], axis=0)
    vectors += 0.3 * rng.standard_normal(vectors.shape)
    larger, smaller = two_groups(vectors)
    assert (larger.tolist(), smaller.tolist()) == (list(range(7, 16)), list(range(7)))
    order = rng.permutation(16)
    turn = np.linalg.qr(rng.standard_normal((4, 4)))[0]
    lengths = rng.uniform(0.1, 9, (16, 1))
    for other in (vectors[order], (vectors * lengths)[order], (vectors @ turn)[order]):
        assert {frozenset(order[group].tolist()) for group in two_groups(other)} == {
            frozenset(range(7)),
            frozenset(range(7, 16)),
        }


def test_what_is_no_pair_of_groups():
    rng = np.random.default_rng(0)
    pair = np.repeat(np.eye(2), [4, 4], axis=0)
    assert two_groups(pair) is not None
    assert two_groups(pair[1:]) is None  # too few
    assert two_groups(np.repeat(np.eye(2), [9, 2], axis=0)) is None  # exceptions, no group
    assert two_groups(np.ones((12, 3))) is None  # one thing
    assert two_groups(np.zeros((12, 3))) is None
    assert two_groups(rng.standard_normal((20, 500))) is None  # nothing in common at all


@pytest.mark.parametrize("share", [0.2, 0.4])
def test_groups_are_unrelated_where_cosines_across_are_small(share):
    """Inside each group all cosines are 1, across them all are the share."""
    one, other = np.array([1.0, 0]), np.array([share, np.sqrt(1 - share**2)])
    found = two_groups(np.stack([one] * 6 + [other] * 6))
    assert (found is not None) == (share <= 0.3)


def test_a_namer_gets_words_and_texts_and_gives_the_name():
    asked = []

    def namer(words, examples):
        asked.append((words, examples))
        return ["  about\nbills ", ""][len(asked) - 1]

    found = describe_features(Z, texts=TEXTS, namer=namer)
    plain = describe_features(Z, texts=TEXTS)
    assert [d.name for d in found] == ["about bills", plain[1].name, ""]
    assert asked == [(plain[0].words, TEXTS[:2]), (plain[1].words, [TEXTS[i] for i in (2, 3, 1)])]
    same = describe_features(Z, texts=TEXTS, namer=lambda words, examples: "same")
    assert [d.name for d in same] == ["same", "same (2)", ""]


def test_what_a_namer_does_wrong_is_named():
    with pytest.raises(TypeError, match="namer returned None for feature 0; it must return a text"):
        describe_features(Z, texts=TEXTS, namer=lambda words, examples: None)
    with pytest.raises(ValueError, match="namer names features by their texts; give texts="):
        describe_features(Z, labels=list("abccd"), namer=lambda words, examples: "x")

    def broken(words, examples):
        raise ConnectionError("no model")

    with pytest.raises(ConnectionError, match="no model") as caught:
        describe_features(Z, texts=TEXTS, namer=broken)
    assert caught.value.__notes__ == ["namer was called for feature 0"]


def test_texts_of_every_kind_give_the_same():
    expected = describe_features(Z, texts=TEXTS)
    assert describe_features(Z, texts=np.array(TEXTS)) == expected
    assert describe_features(Z, texts=tuple(TEXTS)) == expected
    pandas = pytest.importorskip("pandas")
    column = pandas.Series(TEXTS, index=[7, 3, 1, 0, 2])
    assert describe_features(Z, texts=column) == expected
    spaced = [text.replace(" ", "_") for text in TEXTS]
    split = describe_features(Z, texts=spaced, tokenize=lambda text: text.split("_"))
    assert split == expected


def test_equal_names_get_further_words():
    """Two features of cars that differ only in what comes after the first word."""
    texts = ["car red"] * 6 + ["car. fast"] * 6 + ["pie"] * 12
    Z = np.zeros((24, 2))
    Z[:6, 0] = Z[6:12, 1] = 1
    found = describe_features(Z, texts=[t.replace(" ", ". ") for t in texts], n_words=1)
    assert len({d.name for d in found}) == 2
    assert all(len(d.words) == 1 for d in found)
