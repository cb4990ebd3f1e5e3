import math

import numpy as np
import pytest
from scipy import sparse

from nonneg.estimators.description import described

TEXTS = ["pay my phone bill", "pay the water bill", "book a flight", "flight to rome please", "hm"]
Z = np.array([[3.0, 0, 0], [1.0, 0.5, 0], [0, 2.0, 0], [0, 1.0, 0], [0, 0, 0]])


def test_strongest_come_first_and_only_active_ones():
    found = described(Z, labels=list("abccd"))
    assert [d.top for d in found] == [(0, 1), (2, 3, 1), ()]
    assert described(Z, n_top=2)[1].top == (2, 3)
    assert found[2].name == ""
    assert found[1].label_mix == (("c", pytest.approx(2 / 3)), ("b", pytest.approx(1 / 3)))
    assert [d.name for d in found[:2]] == ["a", "c"]


def test_words_are_ranked_by_class_based_tf_idf():
    found = described(Z, texts=TEXTS, n_words=4)
    # Word counts of the features' texts; text 1 belongs to both.
    counts = [
        {"pay": 2, "bill": 2, "my": 1, "phone": 1, "the": 1, "water": 1},
        {"flight": 2, "book": 1, "to": 1, "rome": 1, "please": 1}
        | {"pay": 1, "the": 1, "water": 1, "bill": 1},
        {},
    ]
    mean = sum(sum(c.values()) for c in counts) / 3
    for description, count in zip(found, counts, strict=True):
        score = {
            w: n * math.log(1 + mean / sum(c.get(w, 0) for c in counts)) for w, n in count.items()
        }
        expected = sorted(score, key=lambda w: (-round(score[w], 9), w))[:4]
        assert list(description.words) == expected
    assert found[1].name.startswith("flight")


def test_sparse_features_give_the_same():
    assert described(sparse.csr_array(Z), texts=TEXTS) == described(Z, texts=TEXTS)


def test_tiles_give_the_same(monkeypatch):
    rng = np.random.default_rng(0)
    many = rng.random((300, 7)) * (rng.random((300, 7)) < 0.3)
    unit = many / np.linalg.norm(many, axis=1, keepdims=True).clip(1e-12)
    monkeypatch.setattr("nonneg.metrics.features._TILE_ENTRIES", 7 * 13)
    for feature, description in enumerate(described(many, n_top=9)):
        assert list(description.top) == np.argsort(-unit[:, feature], kind="stable")[:9].tolist()


def test_wrong_lengths_are_named():
    with pytest.raises(ValueError, match="texts has 2 entries for 5 samples"):
        described(Z, texts=["a", "b"])
    with pytest.raises(ValueError, match="labels has 6 entries for 5 samples"):
        described(Z, labels=range(6))
    with pytest.raises(ValueError, match="hold no word to name by"):
        described(Z, texts=["?"] * 5)
