"""Coherence and diversity of words: closed forms, loops, invariances, and gensim beside them."""

import math
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nonneg import metrics
from nonneg.metrics import coherence

WORDS = ["aa", "bb", "cc", "dd", "ee", "ff"]
texts_of_words = st.lists(st.lists(st.sampled_from(WORDS), max_size=9), min_size=1, max_size=12)
lists_of_words = st.lists(
    st.lists(st.sampled_from([*WORDS, "zz"]), max_size=5), min_size=1, max_size=4
)


def windows_by_loops(texts, window):
    for text in texts:
        if window is None or len(text) <= window:
            yield set(text)
        else:
            yield from (set(text[at : at + window]) for at in range(len(text) - window + 1))


def npmi_by_loops(words, texts, window, epsilon=0.0):
    sets = list(windows_by_loops(texts, window))
    scores = []
    for own in words:
        own = list(dict.fromkeys(own))
        pairs = []
        for a, b in combinations(own, 2):
            p_a, p_b, p_ab = (
                sum(wanted <= held for held in sets) / len(sets) for wanted in ({a}, {b}, {a, b})
            )
            p_ab += epsilon
            if p_a * p_b == 0 or p_ab == 0:
                pairs.append(-1.0)
            elif p_ab == 1:
                pairs.append(1.0)
            else:
                pairs.append(math.log(p_ab / (p_a * p_b)) / -math.log(p_ab))
        scores.append(sum(pairs) / len(pairs) if pairs else math.nan)
    return scores


@settings(max_examples=60, deadline=None)
@given(words=lists_of_words, texts=texts_of_words, window=st.sampled_from([None, 1, 2, 4]))
def test_npmi_is_that_of_loops(words, texts, window):
    found = metrics.npmi_coherence(words, [" ".join(text) for text in texts], window=window)
    expected = npmi_by_loops(words, texts, window)
    np.testing.assert_allclose(found.per_feature, expected, atol=1e-12)
    held = {word for text in texts for word in text}
    assert found.n_unseen == len({word for own in words for word in own} - held)


@pytest.mark.parametrize("window", [None, 3])
def test_parts_of_the_texts_add_up(window, monkeypatch):
    rng = np.random.default_rng(0)
    texts = [" ".join(rng.choice(WORDS, 7)) for _ in range(40)]
    words = [WORDS[:3], WORDS[2:]]
    whole = metrics.npmi_coherence(words, texts, window=window).per_feature
    monkeypatch.setattr(coherence, "_PART_ENTRIES", 10)
    np.testing.assert_allclose(
        metrics.npmi_coherence(words, texts, window=window).per_feature, whole, atol=1e-12
    )


def test_npmi_of_words_that_only_come_together_of_independent_ones_and_of_strangers():
    texts = ["aa bb cc", "aa bb", "cc", "dd"]
    found = metrics.npmi_coherence([["aa", "bb"], ["aa", "cc"], ["aa", "dd"], ["aa"]], texts)
    np.testing.assert_allclose(found.per_feature, [1, 0, -1, np.nan], atol=1e-12)
    assert found.value == pytest.approx(0)
    assert found.averaged_over == 3


def test_words_that_every_text_holds_belong_together():
    assert metrics.npmi_coherence([["aa", "bb"]], ["aa bb", "bb aa"]).value == 1


def test_what_must_not_matter_to_npmi_does_not():
    rng = np.random.default_rng(1)
    texts = [" ".join(rng.choice(WORDS, 5)) for _ in range(30)]
    words = [WORDS[:4], WORDS[3:]]
    expected = metrics.npmi_coherence(words, texts, window=3).per_feature
    for others, more in (
        (words, texts[::-1]),
        ([own[::-1] for own in words], texts),
        ([[word.upper() for word in own] for own in words], texts),
        (words, texts * 3),
        ([[*own, own[0]] for own in words], texts),
    ):
        found = metrics.npmi_coherence(others, more, window=3).per_feature
        np.testing.assert_allclose(found, expected, atol=1e-12)


def test_a_phrase_counts_as_its_words_and_only_the_first_words_count():
    texts = ["aa bb", "aa bb", "cc", "cc dd"]
    assert metrics.npmi_coherence([["aa bb", "cc"]], texts, n_words=2).value == pytest.approx(1)
    assert metrics.npmi_coherence([["aa", "bb", "cc"]], texts).value < 0


def test_a_tokenizer_of_ones_own_cuts_texts_and_words():
    found = metrics.npmi_coherence([["a", "b"]], ["a b", "a b", "c"], tokenize=str.split)
    assert found.value == pytest.approx(1)
    assert metrics.npmi_coherence([["a", "b"]], ["a b", "c"]).averaged_over == 0


@pytest.mark.parametrize("window", [None, 4])
def test_npmi_is_that_of_gensim(window):
    models = pytest.importorskip("gensim.models", reason="gensim is not installed")
    corpora = pytest.importorskip("gensim.corpora", reason="gensim is not installed")
    rng = np.random.default_rng(0)
    words = [f"w{number:02}" for number in range(34)]
    # No word twice in a text: gensim 4.4 forgets a word that leaves a window which holds it still.
    texts = [
        list(rng.choice(words[10 * kind :][:14], rng.integers(3, 14), replace=False))
        for kind in rng.integers(3, size=60)
    ]
    topics = [list(rng.choice(words, 6, replace=False)) for _ in range(8)]
    longest = max(map(len, texts))
    model = models.CoherenceModel(
        topics=topics,
        texts=texts,
        dictionary=corpora.Dictionary(texts),
        coherence="c_npmi",
        window_size=longest if window is None else window,
        processes=1,
    )
    found = metrics.npmi_coherence(
        topics, [" ".join(text) for text in texts], window=window, epsilon=1e-12
    )
    np.testing.assert_allclose(found.per_feature, model.get_coherence_per_topic(), atol=1e-9)
    assert found.value == pytest.approx(model.get_coherence(), abs=1e-9)


def test_embedding_coherence_is_that_of_loops():
    rng = np.random.default_rng(0)
    vectors = {word: rng.normal(size=4) * 10.0 ** rng.integers(-9, 9) for word in WORDS}
    words = [WORDS[:3], [*WORDS[2:], "zz", "aa"], ["aa"]]
    found = metrics.word_embedding_coherence(words, vectors)
    expected = []
    for own in words[:2]:
        pairs = [(vectors[a], vectors[b]) for a, b in combinations(own, 2) if "zz" not in (a, b)]
        cosines = [sum(a * b) / math.sqrt(sum(a * a)) / math.sqrt(sum(b * b)) for a, b in pairs]
        expected.append(sum(cosines) / len(cosines))
    np.testing.assert_allclose(found.per_feature, [*expected, np.nan], atol=1e-12)
    assert (found.n_unseen, found.averaged_over) == (1, 2)


def test_an_encoder_of_words_is_called_once_with_different_words():
    calls = []

    def encode(words):
        calls.append(words)
        return np.eye(3)[[len(word) - 2 for word in words]]

    found = metrics.word_embedding_coherence([["aa", "bb"], ["aa", "ccc"]], encode)
    assert found.per_feature.tolist() == [1, 0]
    assert calls == [["aa", "bb", "ccc"]]


def test_diversity_counts_shared_words():
    assert metrics.topic_diversity([["aa", "bb"], ["cc", "dd"]]).value == 1
    assert metrics.topic_diversity([["aa", "bb"]] * 4).value == 1 / 4
    found = metrics.topic_diversity([["aa", "bb", "cc"], ["aa", "dd"], []], n_words=2)
    assert (found.value, found.averaged_over) == (3 / 4, 4)
    assert math.isnan(metrics.topic_diversity([[], []]).value)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: metrics.npmi_coherence(["aa"], ["aa"]), "words holds 'aa' in place 0"),
        (lambda: metrics.npmi_coherence([["aa"], [3]], ["aa"]), "place 1; give a list"),
        (lambda: metrics.npmi_coherence([], ["aa"]), "words is empty"),
        (lambda: metrics.npmi_coherence([["aa"]], []), "at least one text"),
        (lambda: metrics.npmi_coherence([["aa"]], "aa"), "texts must be a list"),
        (lambda: metrics.npmi_coherence([["aa"]], ["aa"], n_words=0), "n_words is 0"),
        (lambda: metrics.npmi_coherence([["aa"]], ["aa"], window=0), "window is 0"),
        (lambda: metrics.npmi_coherence([["aa"]], ["aa"], epsilon=-1), "epsilon is -1"),
        (
            lambda: metrics.word_embedding_coherence([["aa", "bb"]], lambda words: np.ones(3)),
            r"shape \(3,\) for 2 words",
        ),
        (
            lambda: metrics.word_embedding_coherence([["aa"]], {"aa": [np.nan]}),
            "NaN or infinity",
        ),
        (
            lambda: metrics.word_embedding_coherence([["aa", "bb"]], {"aa": [1], "bb": [1, 2]}),
            "vectors of different lengths",
        ),
        (lambda: metrics.topic_diversity([["aa"]], n_words=0), "n_words is 0"),
    ],
)
def test_wrong_words_are_named(call, message):
    with pytest.raises((ValueError, TypeError), match=message):
        call()
