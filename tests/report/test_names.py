"""Names: the classes of a feature's strongest samples, or the words that set them apart."""

import math

import numpy as np
import pytest

from nonneg.report.writing import class_mixes, names_by_class, names_by_words


def test_names_come_from_classes():
    top = np.array([[0, 1, 2, -1], [3, -1, -1, -1], [-1, -1, -1, -1]])
    mixes = class_mixes(top, np.array([1, 1, 0, 2]))
    assert names_by_class(mixes, ["cat", "dog", "cow"]) == ["dog", "cow", ""]


def test_texts_without_words_give_no_names():
    assert names_by_words(np.array([[0], [1]]), ["?", "!"]) == ["", ""]


def test_a_word_that_all_texts_hold_is_no_name():
    texts = ["please play jazz", "please play rock", "please call home", "please call work"]
    assert names_by_words(np.array([[0, 1], [2, 3]]), texts) == ["play", "call"]


def test_a_rare_word_in_one_text_does_not_beat_a_word_in_many():
    texts = [f"a dog runs {'zyxel' if i == 0 else ''}" for i in range(10)]
    texts += ["a cat sleeps"] * 10
    assert names_by_words(np.array([list(range(10))]), texts) == ["dog runs"]


def test_words_that_differ_by_their_ending_stand_once():
    texts = ["skier sits on snow", "skiers sitting on snow", "a woman and women", "women, a woman"]
    names = names_by_words(np.array([[0, 1], [2, 3]]), texts)
    assert names[0].split(", ")[0] == "snow"
    assert names[1] in ("woman, and", "women, and", "and, woman", "woman", "women")


def test_the_score_is_that_of_the_formula():
    """By loops: shares drawn towards the usual ones, times a power of the logarithm."""
    rng = np.random.default_rng(0)
    vocabulary = [4 * letter for letter in "abcdefghijklmnopqrstuvwxyz"]
    odds = 1 / np.arange(2, 28)
    texts = [
        " ".join(rng.choice(vocabulary, 4, replace=False, p=odds / odds.sum())) for _ in range(200)
    ]
    top = rng.permuted(np.tile(np.arange(200), (60, 1)), axis=1)[:, :20]
    for numbers, name in zip(top, names_by_words(top, texts), strict=True):
        scores = {}
        for word in vocabulary:
            usual = sum(word in text for text in texts) / 200
            count = sum(word in texts[i] for i in numbers)
            share = (count + 5 * usual) / 25
            if share > usual and count >= 2:
                scores[word] = share * math.log(share / usual) ** 1.5
        best = sorted(scores, key=lambda word: -scores[word])[:3]
        assert name == ", ".join(best)


def test_texts_of_the_other_kind_count_as_much():
    texts = ["red ball", "red ball", "blue ball", "blue cube", "green cube", "green cube"]
    of = np.array([0, 0, 1, 1, 2, 2])
    captions, images = np.array([[0, 2]]), np.array([[1]])
    assert names_by_words(captions, texts) == ["ball"]
    both = names_by_words(captions, texts, beside=images, text_of=of)
    assert both[0].split(", ")[0] == "blue"


@pytest.mark.parametrize("order", [[0, 1, 2, 3, 4, 5], [5, 3, 1, 0, 2, 4]])
def test_the_order_of_texts_does_not_matter(order):
    texts = ["red ball", "red ball", "blue ball", "blue cube", "green cube", "green cube"]
    place = np.argsort(order)
    top = place[np.array([[0, 1], [3, 4]])]
    assert names_by_words(top, [texts[i] for i in order]) == ["red, ball", "cube"]
