"""Blind questionnaires: what is asked, what is hidden, and how answers are scored."""

import json
import math

import numpy as np
import pytest

from nonneg.evaluation import intrusion_questions, score_answers, write_questionnaire
from nonneg.evaluation.questionnaires import wilson_interval

WORDS = [[f"{kind}{number}" for number in range(8)] for kind in ("sea", "tax", "sun", "oak")]
Z = np.eye(4)[np.arange(48) % 4]
TEXTS = [f"text {number} of kind {number % 4}" for number in range(48)]


def lines(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


@pytest.fixture
def files(tmp_path):
    questions = intrusion_questions(Z, TEXTS, words=WORDS, n_questions=3)
    paths = tmp_path / "questions.jsonl", tmp_path / "key.jsonl"
    write_questionnaire(questions, *paths)
    return paths


def answer(path, answers):
    path.write_text("".join(json.dumps(line) + "\n" for line in answers))
    return path


def test_five_options_are_of_the_feature_and_the_answer_is_of_the_other():
    questions = intrusion_questions(Z, TEXTS, words=WORDS, n_questions=3)
    assert len(questions) == 2 * 4 * 3
    for question in questions:
        *_, intruder = sorted(question.options, key=question.options[question.answer - 1].__eq__)
        others = [option for option in question.options if option != intruder]
        assert len(others) == 5
        if question.kind == "words":
            assert set(others) == set(WORDS[question.feature][:5])
            assert intruder in WORDS[question.other][:5]
        else:
            assert all(TEXTS.index(text) % 4 == question.feature for text in others)
            assert TEXTS.index(intruder) % 4 == question.other


def test_nothing_about_features_is_in_the_questions(files):
    shown = lines(files[0])
    assert {frozenset(line) for line in shown} == {frozenset({"id", "prompt", "options"})}
    assert [line["id"] for line in shown] == [line["id"] for line in lines(files[1])]
    assert len({line["id"].split("-")[0] for line in shown}) == 1


def test_order_and_places_tell_nothing():
    questions = intrusion_questions(Z, TEXTS, words=WORDS, n_questions=60)
    places = np.bincount([question.answer for question in questions], minlength=7)[1:]
    assert places.sum() == 480
    assert places.min() > 80 * 0.6
    features = [question.feature for question in questions]
    assert features != sorted(features)
    again = intrusion_questions(Z, TEXTS, words=WORDS, n_questions=60)
    assert again == questions
    assert intrusion_questions(Z, TEXTS, words=WORDS, n_questions=60, random_state=1) != questions


def test_an_intruder_is_never_a_word_of_the_feature():
    words = [[*"abcde", "x"], [*"Xbcdy", "z"]]
    for seed in range(20):
        for question in intrusion_questions(words=words, random_state=seed):
            own = {word.lower() for word in words[question.feature]}
            assert question.options[question.answer - 1].lower() not in own


def test_right_answers_score_one_and_guesses_about_chance(files, tmp_path):
    key = lines(files[1])
    right = answer(tmp_path / "a.jsonl", [{"id": k["id"], "answer": k["answer"]} for k in key])
    found = score_answers(right, files[1])
    assert (found.value, found.chance, found.n_questions) == (1, 1 / 6, 24)
    assert found.by_kind == {"texts": 1, "words": 1}
    assert found.per_feature.tolist() == [1, 1, 1, 1]
    first = answer(tmp_path / "b.jsonl", [{"id": k["id"], "answer": 1} for k in key])
    expected = sum(k["answer"] == 1 for k in key) / 24
    assert score_answers(first, files[1]).value == pytest.approx(expected)


def test_missing_answers_do_not_count_and_invalid_ones_are_wrong(files, tmp_path):
    key = lines(files[1])
    given = [{"id": k["id"], "answer": str(k["answer"])} for k in key[:10]]
    given += [{"id": key[10]["id"], "answer": None}, {"id": key[11]["id"], "answer": ""}]
    wrong = ("none", 0, 7, 2.5, True, [1])
    given += [{"id": k["id"], "answer": w} for k, w in zip(key[12:], wrong, strict=False)]
    found = score_answers(answer(tmp_path / "a.jsonl", given), files[1])
    assert (found.averaged_over, found.n_invalid, found.n_missing) == (16, 6, 8)
    assert found.value == 10 / 16
    assert found.interval == wilson_interval(10, 16)
    by_feature = [
        [i < 10 for i, k in enumerate(key[:18]) if i not in (10, 11) and k["feature"] == feature]
        for feature in range(4)
    ]
    expected = [sum(own) / len(own) if own else math.nan for own in by_feature]
    np.testing.assert_allclose(found.per_feature, expected)


def test_no_answers_have_no_score(files, tmp_path):
    found = score_answers(answer(tmp_path / "a.jsonl", []), files[1])
    assert math.isnan(found.value)
    assert (found.interval, found.n_missing, found.by_kind) == ((0.0, 1.0), 24, {})
    assert np.isnan(found.per_feature).all()


def test_the_interval_holds_the_shares_that_do_not_reject_the_count():
    low, high = wilson_interval(30, 40)
    for share in (low, high):
        assert abs(30 / 40 - share) / math.sqrt(share * (1 - share) / 40) == pytest.approx(1.96)
    assert wilson_interval(0, 5)[0] == 0
    assert wilson_interval(5, 5)[1] == 1


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"id": "other-0001", "answer": 1}', "which .*key.jsonl lacks"),
        ("{", "line 1 is not JSON"),
        ('{"answer": 1}', "line 1 has no id"),
        ("[]", "line 1 has no id"),
    ],
)
def test_answers_of_another_kind_are_refused(files, tmp_path, text, message):
    (tmp_path / "a.jsonl").write_text(text)
    with pytest.raises(ValueError, match=message):
        score_answers(tmp_path / "a.jsonl", files[1])


def test_two_answers_to_a_question_are_refused(files, tmp_path):
    given = [{"id": lines(files[1])[0]["id"], "answer": 1}] * 2
    with pytest.raises(ValueError, match="twice; score each person"):
        score_answers(answer(tmp_path / "a.jsonl", given), files[1])


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: intrusion_questions(), "nothing to ask about"),
        (lambda: intrusion_questions(Z), "nothing to ask about"),
        (lambda: intrusion_questions(Z, TEXTS[1:]), "texts has 47 entries for 48"),
        (lambda: intrusion_questions(words=[["a"]]), "no feature can be asked about"),
        (lambda: intrusion_questions(words=WORDS, n_questions=0), "n_questions is 0"),
        (lambda: intrusion_questions(words=WORDS[:1]), "no feature can be asked about"),
    ],
)
def test_what_cannot_be_asked_is_named(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def test_long_texts_are_cut_and_equal_ones_are_not_asked_about():
    long = [f"{text} " + "word " * 300 for text in TEXTS]
    for question in intrusion_questions(Z, long):
        assert max(map(len, question.options)) == 600
    with pytest.raises(ValueError, match="no feature can be asked about"):
        intrusion_questions(Z, ["the same"] * 48)


def test_one_file_is_not_both(tmp_path):
    questions = intrusion_questions(words=WORDS)
    with pytest.raises(ValueError, match="named for both files"):
        write_questionnaire(questions, tmp_path / "a.jsonl", tmp_path / "b" / ".." / "a.jsonl")
    assert list(tmp_path.iterdir()) == []
