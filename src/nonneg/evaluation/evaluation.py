"""The evaluation of one encoder: carried out section by section, kept in one JSON file."""

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import Any, Self

from nonneg.evaluation.sections import SECTIONS, SENTENCES
from nonneg.evaluation.subject import NotMeasurableError, Subject
from nonneg.io import read_json, write_json
from nonneg.metrics.figures import Figure, Figures, current_key
from nonneg.settings import nearest

# Measured only when asked for by name: it takes as long as training.
ON_REQUEST = ("fine_tune",)
_VERSIONS = ("nonneg", "torch", "numpy", "scipy", "scikit-learn")


@dataclass(frozen=True)
class Measured:
    """The figures of one section, and the settings they were measured with.

    ``sentence`` says what they amount to; empty for most sections.
    """

    figures: Figures
    settings: dict[str, Any]
    seconds: float
    versions: dict[str, str]
    sentence: str = ""


@dataclass
class Evaluation:
    """What is known of one encoder.

    Args:
        model: Digest of its weights: figures of other weights are never mixed in.
        data: Names and numbers of samples.
        sections: What was measured.
        skipped: What does not apply, and why.
    """

    model: str
    data: dict[str, Any]
    sections: dict[str, Measured] = field(default_factory=dict)
    skipped: dict[str, str] = field(default_factory=dict)

    def figures(self) -> Figures:
        """All figures of all sections, by name."""
        return {
            name: figure
            for section in self.sections.values()
            for name, figure in section.figures.items()
        }

    def write(self, path: Path) -> None:
        """Write all of it as JSON, in one go."""
        sections = {
            name: {
                **{key: entry for key, entry in vars(section).items() if entry != ""},
                "figures": {key: figure.as_json() for key, figure in section.figures.items()},
            }
            for name, section in self.sections.items()
        }
        write_json(path, {"nonneg": "evaluation", **vars(self), "sections": sections})

    @classmethod
    def read(cls, path: Path) -> Self:
        """What ``write`` wrote.

        Raises:
            ValueError: If the file is something else.
        """
        remedy = "delete it and evaluate again"
        values = read_json(path, remedy=remedy)
        try:
            if values.pop("nonneg") != "evaluation":
                raise ValueError("its kind is another")
            _check_entries(values)
            sections = {
                name: Measured(
                    **{
                        **section,
                        # A file of an earlier version may have figures by earlier names.
                        "figures": {
                            current_key(k): Figure.from_json(v)
                            for k, v in section["figures"].items()
                        },
                    }
                )
                for name, section in values.pop("sections").items()
            }
            return cls(sections=sections, **values)
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise ValueError(f"{path} is not an evaluation ({error}); {remedy}") from error


def _check_entries(values: dict[str, Any]) -> None:
    """Raise for the first entry of another type than ``write`` gives it."""
    _check_kinds(values, {"model": str, "data": dict, "sections": dict, "skipped": dict})
    for name, part in values["data"].items():
        _check_kinds(part, {"name": str, "n_samples": int}, f"data.{name}")
    for name, section in values["sections"].items():
        _check_kinds(section, {"figures": dict, "settings": dict, "versions": dict}, name)
        _check_kinds({"sentence": "", **section}, {"sentence": str}, name)
        for key, figure in section["figures"].items():
            _check_kinds(figure, {"value": int | float | None, "beside": dict}, f"{name}.{key}")


def _check_kinds(values: Any, kinds: dict[str, Any], where: str = "") -> None:  # noqa: ANN401
    if not isinstance(values, dict):
        raise TypeError(f"{where} is {type(values).__name__}")
    for key, kind in kinds.items():
        if not isinstance(values[key], kind):
            name = f"{where}.{key}" if where else key
            raise TypeError(f"{name} is {type(values[key]).__name__}")


def chosen_sections(only: Iterable[str] | None) -> list[str]:
    """The sections to measure: those named, else all but the ones made on request."""
    if only is None:
        return [name for name in SECTIONS if name not in ON_REQUEST]
    names = list(only)
    for name in names:
        if name not in SECTIONS:
            raise ValueError(f"unknown section {name!r}; {nearest(name, SECTIONS)}")
    if not names:
        raise ValueError(f"name at least one section; known: {', '.join(SECTIONS)}")
    return names


def evaluate(
    subject: Subject,
    names: Iterable[str],
    evaluation: Evaluation,
    *,
    watch: Callable[[str], None] = lambda _: None,
    after: Callable[[str], None] = lambda _: None,
) -> None:
    """Measure sections of a subject and put each into an evaluation as soon as it is done.

    Args:
        subject: The encoder and its data.
        names: Of sections.
        evaluation: Gets the figures, and for sections that do not apply the reason.
        watch: Told what is being measured.
        after: Told the name of each section when it is done: the moment to save.
    """
    settings = subject.settings.model_dump(mode="json")
    versions = {name: version(name) for name in _VERSIONS}
    for name in names:
        began = time.perf_counter()
        watch(name)
        try:
            figures = SECTIONS[name](subject, lambda text, name=name: watch(f"{name}: {text}"))  # type: ignore[misc]
        except NotMeasurableError as reason:
            evaluation.skipped[name] = str(reason)
            evaluation.sections.pop(name, None)
        else:
            seconds = round(time.perf_counter() - began, 3)
            sentence = SENTENCES[name](figures) if name in SENTENCES else ""
            evaluation.sections[name] = Measured(figures, settings, seconds, versions, sentence)
            evaluation.skipped.pop(name, None)
        after(name)
