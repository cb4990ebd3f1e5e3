"""Words tell something where a feature's texts hold them more often than all texts do."""

import numpy as np
import pytest

from nonneg.estimators.words import telling_words


@pytest.mark.parametrize("n_texts", [49, 100, 400, 1797])
def test_words_of_all_texts_tell_nothing(n_texts):
    rng = np.random.default_rng(0)
    texts = [f"a scan of the digit {i % 10}" for i in range(n_texts)]
    top = rng.permuted(np.tile(np.arange(n_texts), (5, 1)), axis=1)[:, :20]
    assert telling_words(top, texts) == [()] * 5
    beside, text_of = top // 7, np.arange(n_texts) // 7
    assert telling_words(top, texts, beside=beside, text_of=text_of) == [()] * 5


@pytest.mark.parametrize("n_texts", [30, 150, 390])
def test_a_word_of_the_usual_share_tells_nothing_beside_one_that_does(n_texts):
    """Every third text holds "third", as do a third of the feature's texts."""
    texts = [("third " if i % 3 == 0 else "") + "text" for i in range(n_texts)]
    assert telling_words(np.arange(15)[None], texts) == [()]
    texts[:15] = [f"{text} early" for text in texts[:15]]
    assert telling_words(np.arange(15)[None], texts) == [("early",)]


def test_a_word_that_is_a_little_more_frequent_still_tells():
    texts = ["ball red"] * 10 + ["ball"] * 989 + ["cube"]
    assert telling_words(np.arange(10)[None], texts) == [("red", "ball")]
