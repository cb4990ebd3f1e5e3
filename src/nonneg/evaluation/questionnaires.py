"""Blind questionnaires of intruders among six, for people or for a language model.

Questions of word intrusion (Chang et al. 2009) and of document intrusion go to one file without
the answers, and the answers to another. What comes back is scored beside the level of chance.
"""

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from math import sqrt
from pathlib import Path
from typing import Any

import numpy as np

from nonneg.io import write_bytes
from nonneg.metrics.coherence import Words, checked_words
from nonneg.metrics.inputs import FeatureLike, checked_count, checked_features
from nonneg.metrics.monosemanticity import N_SHOWN, intruder_trials
from nonneg.metrics.results import FloatArray, Measurement
from nonneg.untrusted import json_value, read_regular

PROMPTS = {
    "words": "Five of these six words belong together. Give the number of the one that does not.",
    "texts": "Five of these six texts have a subject in common. Give the number of the other one.",
}
# Two standard errors and a bit: 95 % of a normal distribution.
_WIDTH = 1.96
_LONGEST_TEXT = 600


@dataclass(frozen=True, kw_only=True)
class Question:
    """One question with its answer.

    Args:
        kind: ``"words"`` or ``"texts"``.
        feature: Whose words or texts five of the options are.
        other: The feature that the intruder comes from.
        options: Six words or texts, in the order that they are shown in.
        answer: The number of the intruder, from 1.
    """

    kind: str
    feature: int
    other: int
    options: tuple[str, ...]
    answer: int


def intrusion_questions(
    Z: FeatureLike | None = None,
    texts: Sequence[str] | None = None,
    *,
    words: Words | None = None,
    n_questions: int = 1,
    n_top: int = 20,
    random_state: int = 0,
) -> list[Question]:
    """Questions about every feature that can be asked, in an order that tells nothing.

    A question of words shows five of a feature's first words and one of the first of another
    feature, which is not among its own words; a question of texts is a trial of
    :func:`nonneg.metrics.intruder_accuracy`.

    Args:
        Z: Features ``(n_samples, n_features)``, for questions of texts.
        texts: One per sample, cut after 600 characters.
        words: For each feature its words, best first, for questions of words.
        n_questions: Of each kind and feature, at most.
        n_top: How many strongest texts of a feature questions are drawn from.
        random_state: Seed.

    Returns:
        Features with fewer than five words, or fewer than five texts, are not asked about.

    Example:
        >>> words = ["sea salt tide wave ship".split(), "tax law court judge act".split()]
        >>> questions = intrusion_questions(words=words)
        >>> [q.options[q.answer - 1] in words[q.other] for q in questions]
        [True, True]
    """
    checked_count(n_questions, name="n_questions")
    if words is None and (Z is None or texts is None):
        raise ValueError("nothing to ask about; give words=…, or features and texts, or all three")
    rng = np.random.default_rng(random_state)
    found: list[Question] = []
    if words is not None:
        found += _word_questions(checked_words(words), n_questions, rng)
    if Z is not None and texts is not None:
        found += _text_questions(Z, texts, n_questions, n_top, rng)
    if not found:
        raise ValueError(
            "no feature can be asked about: each needs five words of its own, or five texts that "
            "it is on for, and another feature that an intruder can come from"
        )
    return [found[number] for number in rng.permutation(len(found))]


def write_questionnaire(questions: Sequence[Question], out: str | Path, key: str | Path) -> None:
    """Write questions as JSON lines, and their answers to another file, each whole or not at all.

    A line of ``out`` is ``{"id": …, "prompt": …, "options": […]}``, with nothing about features.
    Answers are expected as lines ``{"id": …, "answer": 3}``, the number of an option from 1.

    Args:
        questions: Of :func:`intrusion_questions`.
        out: What is given to those who answer, ``.jsonl``.
        key: What is kept for :func:`score_answers`, ``.jsonl``.
    """
    if Path(out).resolve() == Path(key).resolve():
        raise ValueError(f"{out} is named for both files; the key must not be where questions are")
    shown = [list(question.options) for question in questions]
    # Ids that begin with a digest of all questions, so that answers to others are noticed.
    digest = hashlib.sha256(json.dumps(shown).encode()).hexdigest()[:6]
    ids = [f"{digest}-{number:04}" for number in range(1, len(questions) + 1)]
    _write_lines(
        Path(out),
        [
            {"id": name, "prompt": PROMPTS[question.kind], "options": list(question.options)}
            for name, question in zip(ids, questions, strict=True)
        ],
    )
    _write_lines(
        Path(key),
        [
            {
                "id": name,
                "answer": question.answer,
                "kind": question.kind,
                "feature": question.feature,
                "other": question.other,
                "n_options": len(question.options),
            }
            for name, question in zip(ids, questions, strict=True)
        ],
    )


@dataclass(frozen=True, kw_only=True, eq=False)
class AnswerScore(Measurement):
    """How many intruders were found; ``value`` is the share of the given answers that are right.

    Args:
        interval: 95 % interval of the value (Wilson's).
        chance: What guessing scores.
        by_kind: The value of each kind of question that was answered.
        per_feature: ``(n_features,)``, up to the last feature asked about; NaN without an answer.
        n_questions: Asked.
        n_missing: Without an answer; they do not count.
        n_invalid: Answered with something else than the number of an option; they count as wrong.
    """

    interval: tuple[float, float]
    chance: float
    by_kind: Mapping[str, float]
    per_feature: FloatArray = field(repr=False)
    n_questions: int
    n_missing: int
    n_invalid: int


def score_answers(answers: str | Path, key: str | Path) -> AnswerScore:
    """The score of a file of answers by the key of its questionnaire.

    Args:
        answers: Lines ``{"id": …, "answer": 3}``; a number may be a text, as ``"3"``. No line, or
            an answer that is null or empty, is a missing answer.
        key: The second file of :func:`write_questionnaire`.

    Raises:
        ValueError: A line that is no JSON object with an id, an id that was answered twice, or one
            that the key lacks.
    """
    asked = {line["id"]: line for line in _lines(Path(key))}
    given: dict[str, Any] = {}
    for line in _lines(Path(answers)):
        name = line["id"]
        if name not in asked:
            raise ValueError(
                f"{answers} answers {name!r}, which {key} lacks; score it by the key of its own "
                "questionnaire"
            )
        if name in given:
            raise ValueError(f"{answers} answers {name!r} twice; score each person's file alone")
        given[name] = line.get("answer")
    answered = {name: text for name, text in given.items() if text not in (None, "")}
    numbers = {name: _number(text, asked[name]["n_options"]) for name, text in answered.items()}
    is_right = {name: number == asked[name]["answer"] for name, number in numbers.items()}
    n_right, n = sum(is_right.values()), len(is_right)
    kinds = sorted({asked[name]["kind"] for name in is_right})
    features = max((line["feature"] for line in asked.values()), default=-1) + 1
    return AnswerScore(
        value=n_right / n if n else float("nan"),
        interval=wilson_interval(n_right, n),
        chance=1 / (N_SHOWN + 1),
        by_kind={
            kind: float(np.mean([r for name, r in is_right.items() if asked[name]["kind"] == kind]))
            for kind in kinds
        },
        per_feature=np.array(
            [
                _mean(r for name, r in is_right.items() if asked[name]["feature"] == i)
                for i in range(features)
            ]
        ),
        n_questions=len(asked),
        n_missing=len(asked) - n,
        n_invalid=sum(number is None for number in numbers.values()),
        averaged_over=n,
        averaged_unit="answers",
        higher_is_better=True,
        signed=False,
    )


def wilson_interval(n_right: int, n: int) -> tuple[float, float]:
    """The 95 % interval of a share by Wilson (1927); (0, 1) where nothing was counted.

    Example:
        >>> [round(end, 3) for end in wilson_interval(8, 10)]
        [0.49, 0.943]
    """
    if n == 0:
        return 0.0, 1.0
    share, squared = n_right / n, _WIDTH**2
    centre = (share + squared / (2 * n)) / (1 + squared / n)
    half = _WIDTH * sqrt(share * (1 - share) / n + squared / (4 * n**2)) / (1 + squared / n)
    return max(centre - half, 0.0), min(centre + half, 1.0)


def _word_questions(
    words: list[list[str]], n_questions: int, rng: np.random.Generator
) -> Iterable[Question]:
    for feature, own in enumerate(words):
        first = list(dict.fromkeys(own))[:N_SHOWN]
        mine = {word.lower() for word in own}
        others = {
            other: allowed
            for other, theirs in enumerate(words)
            if (allowed := [word for word in theirs[:N_SHOWN] if word.lower() not in mine])
        }
        if len(first) < N_SHOWN or not others:
            continue
        for _ in range(n_questions):
            other = int(rng.choice(list(others)))
            intruder = str(rng.choice(others[other]))
            yield _shuffled("words", feature, other, [*first, intruder], rng)


def _text_questions(
    Z: FeatureLike, texts: Sequence[str], n_questions: int, n_top: int, rng: np.random.Generator
) -> Iterable[Question]:
    features = checked_features(Z)
    if len(texts) != features.n_samples:
        raise ValueError(f"texts has {len(texts)} entries for {features.n_samples} samples in Z")
    trials = intruder_trials(features, n_top=n_top, n_trials=n_questions, random_state=rng)
    for feature, (shown, other) in trials.items():
        for numbers, source in zip(shown.tolist(), other.tolist(), strict=True):
            options = [_short(texts[number]) for number in numbers]
            if len(set(options)) == len(options):  # of two equal texts neither can be told
                yield _shuffled("texts", feature, source, options, rng)


def _shuffled(
    kind: str, feature: int, other: int, options: list[str], rng: np.random.Generator
) -> Question:
    """A question with the last option, the intruder, in a place that is drawn."""
    order = rng.permutation(len(options)).tolist()
    return Question(
        kind=kind,
        feature=feature,
        other=other,
        options=tuple(options[number] for number in order),
        answer=order.index(len(options) - 1) + 1,
    )


def _short(text: str) -> str:
    text = " ".join(text.split())
    return text if len(text) <= _LONGEST_TEXT else text[: _LONGEST_TEXT - 1] + "…"


def _number(answer: Any, n_options: int) -> int | None:  # noqa: ANN401
    """The number of an option that an answer gives, or None."""
    if isinstance(answer, str) and answer.strip().isdecimal():
        answer = int(answer)
    is_whole = isinstance(answer, int) and not isinstance(answer, bool)
    return answer if is_whole and 1 <= answer <= n_options else None


def _mean(values: Iterable[bool]) -> float:
    found = list(values)
    return sum(found) / len(found) if found else float("nan")


def _write_lines(path: Path, lines: list[dict[str, Any]]) -> None:
    text = "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines)
    write_bytes(path, text.encode())


def _text(path: Path) -> str:
    try:
        return read_regular(path).decode()
    except UnicodeDecodeError as error:
        raise ValueError(f"{path} is no text in UTF-8 ({error}); save it as UTF-8") from error


def _lines(path: Path) -> list[dict[str, Any]]:
    lines = []
    for number, text in enumerate(_text(path).splitlines(), start=1):
        if not text.strip():
            continue
        try:
            line = json_value(text)
        except ValueError as error:
            raise ValueError(f"{path}, line {number} is not JSON ({error}); mend it") from error
        if not isinstance(line, dict) or not isinstance(line.get("id"), str):
            raise ValueError(f'{path}, line {number} has no id; write {{"id": …, "answer": 3}}')
        lines.append(line)
    return lines
