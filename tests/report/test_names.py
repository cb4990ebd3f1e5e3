"""Names: the classes of a feature's strongest samples, or the words that set them apart."""

import numpy as np
import pytest

from nonneg.report.wording import class_mixes, names_by_class, names_by_words


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


def test_texts_of_the_other_kind_count_as_much():
    texts = ["red ball", "old ball", "blue", "so blue", "new ball", "big ball", "blue", "deep blue"]
    texts += ["pie"] * 8
    of = np.arange(16) // 2
    captions = np.array([[0, 2, 4]])  # two say ball, one says blue
    assert names_by_words(captions, texts) == ["ball"]
    for images, expected in (([[1, 3]], "blue"), ([[0]], "ball")):
        both = names_by_words(captions, texts, beside=np.array(images), text_of=of)
        assert both[0].split(", ")[0] == expected


@pytest.mark.parametrize("order", [[0, 1, 2, 3, 4, 5], [5, 3, 1, 0, 2, 4]])
def test_the_order_of_texts_does_not_matter(order):
    texts = ["red ball", "red ball", "blue ball", "blue cube", "green cube", "green cube"]
    place = np.argsort(order)
    top = place[np.array([[0, 1], [3, 4]])]
    assert names_by_words(top, [texts[i] for i in order]) == ["red ball", "cube"]
