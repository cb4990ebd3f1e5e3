"""What words add, against loops that share no code."""

import math
import re

import numpy as np
import pytest

from nonneg.report.feature_facts import feature_facts
from nonneg.report.wording import word_facts


def corpus(n=120, seed=0):
    rng = np.random.default_rng(seed)
    kinds = ["The green tea, hot", "an old steam train", "Bread and butter", "rain over hills"]
    kind = rng.integers(4, size=n)
    texts = [
        f"{kinds[k]} {'again' if rng.random() < 0.3 else 'once'} no{i}" for i, k in enumerate(kind)
    ]
    Z = np.zeros((n, 5))
    Z[np.arange(n), kind] = rng.uniform(0.3, 1, size=n)
    Z[:, 1] += 0.2 * rng.random(n)
    return Z, texts


def test_counts_and_what_words_add_agree_with_loops():
    Z, texts = corpus()
    facts = feature_facts(Z)
    found = word_facts(Z, texts, top=facts.top)
    strength = [[v / math.sqrt(sum(w * w for w in row)) for v in row] for row in Z.tolist()]
    tokens = [re.findall(r"\w+|,", text.lower()) for text in texts]
    assert found[4] == []  # dead
    assert sum(len(some) for some in found) > 4
    for j, some in enumerate(found):
        top = [i for i in facts.top[j][:20] if i >= 0]
        for fact in some:
            parts = fact.word.split()
            has = [
                any(words[at : at + len(parts)] == parts for at in range(len(words)))
                for words in tokens
            ]
            inside = [row[j] for row, one in zip(strength, has, strict=True) if one]
            outside = [row[j] for row, one in zip(strength, has, strict=True) if not one]
            assert fact.n_all == len(inside)
            assert fact.n_top == sum(has[i] for i in top)
            assert fact.added == pytest.approx(
                sum(inside) / len(inside) - sum(outside) / len(outside), rel=1e-6
            )


def test_words_are_looked_for_among_the_shown_and_counted_in_all():
    Z, texts = corpus()
    shown = np.arange(0, 120, 2)
    facts = feature_facts(Z, shown=shown)
    found = word_facts(Z, texts, top=facts.top, shown=shown)
    tea = next(fact for fact in found[0] if "tea" in fact.word)
    assert tea.n_all == sum(" tea" in text for text in texts)


def test_case_and_length_of_rows_do_not_matter():
    Z, texts = corpus()
    top = feature_facts(Z).top
    one = word_facts(Z, texts, top=top)
    other = word_facts(5 * Z, [text.upper() for text in texts], top=top)
    assert [[fact.word for fact in some] for some in one] == [
        [fact.word for fact in some] for some in other
    ]
    for some, same in zip(one, other, strict=True):
        assert [fact.added for fact in some] == pytest.approx([fact.added for fact in same])


def test_texts_without_words_have_no_facts():
    assert word_facts(np.eye(2), ["?", "!"], top=np.array([[0], [1]])) == [[], []]
