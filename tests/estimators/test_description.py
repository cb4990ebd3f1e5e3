import json

import numpy as np
import pytest
import torch
from scipy import sparse

from nonneg.estimators.description import describe_features, first_of_equal_rows

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
        "a",
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
