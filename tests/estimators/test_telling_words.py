"""Words tell something where a feature's texts hold them more often than all texts do."""

import math
from collections import Counter
from itertools import combinations

import numpy as np
import pytest

from nonneg.estimators.words import telling_words


def words_only(found):
    return [tuple(word for word, _ in words) for words in found]


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
    """Every third text holds "thirds", as do a third of the feature's texts."""
    texts = [("thirds " if i % 3 == 0 else "") + "text" for i in range(n_texts)]
    assert telling_words(np.arange(15)[None], texts) == [()]
    texts[:15] = [f"{text}. early" for text in texts[:15]]
    assert words_only(telling_words(np.arange(15)[None], texts)) == [("early",)]


def test_a_word_that_is_more_frequent_by_half_a_text_tells():
    """Of ten texts 9.4 would usually hold it, or 9.6."""
    for usual, expected in ((94, [("ball",)]), (96, [()])):
        texts = ["ball"] * usual + [""] * (100 - usual)
        assert words_only(telling_words(np.arange(10)[None], texts)) == expected


def test_the_score_of_a_lonely_word_is_the_formula_by_hand():
    texts = ["car"] * 4 + ["pie"] * 4
    ((word, score),) = telling_words(np.array([[0, 1, 2, 3]]), texts)[0]
    share = (3.5 + 5 / 2) / 9
    assert word == "car"
    assert score == pytest.approx(share * math.log(share / 0.5) ** 1.5 * 4 / 9)
    # A second feature with the same word: half as telling as log 2 / log 3 says.
    same = telling_words(np.array([[0, 1, 2, 3], [3, 2, 1, 0]]), texts)
    assert [words[0][1] for words in same] == pytest.approx(
        [score * (1 - math.log(2) / math.log(3))] * 2
    )


def oracle(top, texts, n_words):
    """The whole score with loops: shares, other features, and how words occur together."""
    held = [set(text.split()) for text in texts]
    holding = Counter(word for words in held for word in words)
    n = len(texts)
    first = []
    for numbers in top:
        scores = {}
        for word in set().union(*(held[i] for i in numbers)):
            count = sum(word in held[i] for i in numbers)
            usual = holding[word] / n
            share = (count - 0.5 + 5 * usual) / (len(numbers) + 5)
            if share > usual * (1 + 1e-9) and count >= max(2, len(numbers) / 10):
                rare = math.log(share / usual) ** 1.5
                scores[word] = share * rare * holding[word] / (holding[word] + 5)
        first.append(sorted(scores.items(), key=lambda entry: (-entry[1], entry[0]))[:30])
    n_best = Counter(word for scores in first for word, _ in scores[:10])
    found = []
    for scores in first:
        own = {w: s * (1 - math.log(n_best[w] or 1) / math.log(len(top) + 1)) for w, s in scores}
        npmi = {}
        for a, b in combinations(own, 2):
            both = sum(a in words and b in words for words in held) / n
            npmi[a, b] = npmi[b, a] = (
                math.log(both / (holding[a] * holding[b] / n**2)) / -math.log(both) if both else -1
            )
        judged = own
        for _ in range(4 if len(own) > 1 else 0):
            rest = {w: sum(s for v, s in judged.items() if v != w) for w in own}
            mean = {w: sum(judged[v] * npmi[w, v] for v in own if v != w) / rest[w] for w in own}
            judged = {w: own[w] * max(mean[w], 0.01) for w in own}
        found.append(sorted(judged.items(), key=lambda entry: (-entry[1], entry[0]))[:n_words])
    return found


def drawn_texts(n_texts=200, n_topics=6, seed=0):
    """Texts that draw their words from one of several overlapping parts of a vocabulary."""
    rng = np.random.default_rng(seed)
    vocabulary = np.array([4 * a + 3 * b for a in "bcdfgklm" for b in "aeiouy"])
    texts = []
    for i in range(n_texts):
        odds = 1 / (2 + np.abs(np.arange(48) - 8 * (i % n_topics)))
        texts.append(" ".join(rng.choice(vocabulary, 6, replace=False, p=odds / odds.sum())))
    top = np.stack([rng.choice(np.arange(k, n_texts, n_topics), 20) for k in range(n_topics)])
    return [list(dict.fromkeys(row.tolist()))[:15] for row in top], texts


def test_scores_agree_with_loops():
    top, texts = drawn_texts()
    top = [numbers[:12] for numbers in top]
    found = telling_words(np.array(top), texts, n_words=8, phrases=False)
    for words, expected in zip(found, oracle(top, texts, 8), strict=True):
        assert [word for word, _ in words] == [word for word, _ in expected]
        assert [s for _, s in words] == pytest.approx([s for _, s in expected])
        assert len(words) == 8


def test_the_order_of_texts_and_of_features_does_not_matter():
    top, texts = drawn_texts()
    top = np.array([numbers[:12] for numbers in top])
    expected = telling_words(top, texts)
    order = np.random.default_rng(1).permutation(len(texts))
    shuffled = telling_words(np.argsort(order)[top][::-1], [texts[i] for i in order])[::-1]
    for words, others in zip(shuffled, expected, strict=True):
        assert dict(words) == pytest.approx(dict(others))


class OnDisk:
    """Texts that are read when they are asked for, and counted."""

    def __init__(self, texts):
        self.texts, self.n_passes, self.taken = texts, 0, []

    def __len__(self):
        return len(self.texts)

    def __iter__(self):
        self.n_passes += 1
        return iter(self.texts)

    def __getitem__(self, number):
        self.taken.append(number)
        return self.texts[number]


def test_texts_are_read_once_and_the_strongest_by_number(monkeypatch):
    top, texts = drawn_texts()
    top = np.array([numbers[:5] for numbers in top])
    lazy = OnDisk(texts)
    found = telling_words(top, lazy)
    assert found == telling_words(top, texts)
    assert lazy.n_passes == 1
    assert sorted(lazy.taken) == np.unique(top).tolist()
    monkeypatch.setattr("nonneg.estimators.words._N_BATCH", 7)
    assert telling_words(top, texts) == found


def test_a_draw_of_the_other_texts_gives_much_the_same(monkeypatch):
    top, texts = drawn_texts(n_texts=3000)
    top = np.array([numbers[:12] for numbers in top])
    expected = telling_words(top, texts, n_words=5)
    monkeypatch.setattr("nonneg.estimators.words._N_BACKGROUND", 300)
    found = telling_words(top, texts, n_words=5)
    assert found != expected
    alike = [
        len(set(a) & set(b)) for a, b in zip(words_only(found), words_only(expected), strict=True)
    ]
    assert np.mean(alike) >= 4


def test_a_phrase_stands_for_its_words_where_it_tells_as_much():
    texts = ["lost my credit card", "a new credit card please", "the credit card is blocked"] * 2
    texts += ["flights to los angeles", "los angeles: weather?", "hotels in Los Angeles"] * 2
    texts += ["the card game", "a birthday card", "good weather", "my flights are late"] * 3
    top = np.array([np.arange(6), np.arange(6, 12)])
    found = words_only(telling_words(top, texts))
    assert found[0][0] == "credit card"
    assert found[1][0] == "los angeles"
    said = [word for words in found for term in words for word in term.split()]
    assert len(said) == len(set(said))
    alone = words_only(telling_words(top, texts, phrases=False))
    assert {"credit", "los", "angeles"} <= {word for words in alone for word in words}


@pytest.mark.parametrize("between", [". ", "\n", ", ", " (", ": "])
def test_no_phrase_reaches_across_the_end_of_a_clause(between):
    texts = [f"orbit{between}launch"] * 6 + ["pie"] * 6
    assert {*words_only(telling_words(np.arange(6)[None], texts))[0]} == {"orbit", "launch"}
    together = [text.replace(between, " ") for text in texts]
    assert words_only(telling_words(np.arange(6)[None], together)) == [("orbit launch",)]


def test_words_that_often_meet_by_accident_are_no_phrase():
    """Fewer than three in ten texts with the rarer word hold both side by side."""
    texts = ["said orbit"] * 4 + ["orbit. said"] * 12 + ["pie"] * 20
    found = words_only(telling_words(np.arange(10)[None], texts))[0]
    assert "said orbit" not in found
    texts[4:16] = ["said orbit"] * 3 + ["orbit. said"] * 9
    assert "said orbit" in words_only(telling_words(np.arange(10)[None], texts))[0]


def test_two_forms_of_one_word_are_no_phrase():
    texts = ["detector detectors"] * 6 + ["pie"] * 6
    assert words_only(telling_words(np.arange(6)[None], texts)) == [("detector",)]


def test_function_words_are_left_out_even_where_they_are_frequent():
    texts = ["how do I dance", "how would you dance", "how don't they dance"] * 3
    texts += ["pay the bill", "the fire started"] * 5
    found = words_only(telling_words(np.array([np.arange(9), np.arange(9, 18)]), texts))
    assert found[0] == ("dance",)
    assert set(found[1]) == {"pay", "bill", "fire started"}


def test_in_other_languages_words_that_are_everywhere_do_not_tell():
    german = ["der Hund schläft und die Uhr tickt", "die Katze und der Hund"] * 5
    german += ["die Bank und der Kredit", "der Kredit ist teuer und die Bank zu"] * 5
    found = words_only(telling_words(np.array([np.arange(10), np.arange(10, 20)]), german))
    assert found[0][0] == "hund"
    assert found[1][0] in ("kredit", "bank")
    assert not {"und", "der", "die"} & {word for words in found for word in words}


def test_numbers_and_ids_count_less_unless_nothing_else_tells():
    texts = ["orbit x47 1993", "1993 x47 orbit"] * 5 + ["pie"] * 10
    top = np.arange(10)[None]
    found = dict(telling_words(top, texts, phrases=False)[0])
    assert list(found) == ["orbit", "x47", "1993"]
    assert found["x47"] == pytest.approx(found["orbit"] / 2, rel=0.2)
    assert words_only(telling_words(top, ["1993"] * 10 + ["pie"] * 10)) == [("1993",)]


def test_addresses_are_no_words():
    texts = ["From: kim@cs.example.edu orbit https://example.org/moon www.example.com"] * 6
    assert words_only(telling_words(np.arange(6)[None], texts + ["pie"] * 6)) == [("orbit",)]


def test_scripts_without_spaces_give_pairs_of_characters_or_what_tokenize_says():
    texts = ["我喜欢机器学习", "机器学习很难", "今天天气很好", "我喜欢天气"] * 3
    top = np.array([[0, 1, 4, 5], [2, 3, 6, 7]])
    found = words_only(telling_words(top, texts))
    assert found[0][0] in ("机器", "器学", "学习")
    assert found[1][0] == "天气"

    def known(text):
        return [word for word in ("机器学习", "天气", "喜欢", "我", "很") if word in text]

    assert words_only(telling_words(top, texts, tokenize=known)) == [("机器学习",), ("天气",)]


def test_marks_of_vowels_belong_to_words():
    texts = ["हिन्दी भाषा"] * 5 + ["मौसम"] * 5
    assert words_only(telling_words(np.arange(5)[None], texts)) == [("हिन्दी भाषा",)]


@pytest.mark.parametrize("wrong", ["a text", [1, 2], None, {"a": 1}, [b"bytes"]])
def test_a_tokenizer_that_gives_no_words_is_named(wrong):
    with pytest.raises(TypeError, match="it must give a list of the words of a text"):
        telling_words(np.array([[0]]), ["a text"], tokenize=lambda _: wrong)


def test_what_is_no_text_is_named_wherever_it_stands():
    for place in (0, 2):
        texts = ["one", "two", "three"]
        texts[place] = None
        with pytest.raises(TypeError, match=f"texts holds NoneType in place {place}; give"):
            telling_words(np.array([[0, 1]]), texts)
