"""Settings: frozen models in which an unknown key is an error."""

import difflib
import warnings
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, ClassVar, Literal, Self, get_args, get_origin

from pydantic import BaseModel, ConfigDict, ValidationError, model_validator
from pydantic.fields import FieldInfo
from pydantic_core import ErrorDetails

from nonneg.untrusted import toml_table


class Settings(BaseModel):
    """A frozen group of settings. Its errors are one sentence each, with the nearest known key."""

    model_config = ConfigDict(
        frozen=True, extra="forbid", allow_inf_nan=False, use_attribute_docstrings=True
    )

    former_names: ClassVar[Mapping[str, str]] = {}
    """Names that settings had in earlier versions, each with the present one; still read."""

    @model_validator(mode="before")
    @classmethod
    def _take_former_names(cls, values: Any) -> Any:  # noqa: ANN401
        if not isinstance(values, Mapping):
            return values
        former = [name for name in cls.former_names if name in values]
        for name in former:
            present = cls.former_names[name]
            if present in values:
                raise ValueError(f"{name} is the former name of {present}; leave it out")
            warnings.warn(
                f"the setting {name} is called {present} now; please write it so",
                FutureWarning,
                stacklevel=2,
            )
        return {cls.former_names.get(key, key): values[key] for key in values} if former else values

    @classmethod
    def present_names(cls, values: Mapping[str, Any]) -> dict[str, Any]:
        """A table of settings as an earlier version wrote it, under the present names.

        Args:
            values: Also with keys that are no settings of this kind, which stay as they are.
        """
        present = {cls.former_names.get(key, key): value for key, value in values.items()}
        for name, field in cls.model_fields.items():
            kind, inner = field.annotation, present.get(name)
            if isinstance(kind, type) and issubclass(kind, Settings) and isinstance(inner, Mapping):
                present[name] = kind.present_names(inner)
        return present

    @classmethod
    def read(cls, values: Mapping[str, Any]) -> Self:
        """Settings from plain values (a TOML or JSON table).

        Raises:
            ValueError: One sentence for the first thing that is wrong.
        """
        try:
            return cls.model_validate(values)
        except ValidationError as error:
            raise ValueError(_sentence(error, cls)) from None


def with_overrides(values: Mapping[str, Any], assignments: Iterable[str]) -> dict[str, Any]:
    """A copy of a settings table with ``key=value`` assignments applied.

    Keys are dotted; values are read as TOML where that works and as plain text otherwise. A table
    that is chosen by its ``name`` takes a bare word: ``optimizer=lars`` means
    ``optimizer.name=lars``.

    Args:
        values: Nested tables.
        assignments: Such as ``["optimizer.lr=0.3", "encoder.nonnegative=identity"]``.

    Example:
        >>> with_overrides({"optimizer": {"lr": 0.1}}, ["optimizer.lr=0.3", "seed=1"])
        {'optimizer': {'lr': 0.3}, 'seed': 1}
    """
    result = _copied(values)
    for assignment in assignments:
        key, equals, text = assignment.partition("=")
        if not equals or not key.strip():
            raise ValueError(f"{assignment!r} is not a setting; write key=value, as seed=1")
        *tables, last = key.strip().split(".")
        table = result
        for name in tables:
            table = table.setdefault(name, {})
            if not isinstance(table, dict):
                raise ValueError(f"{key.strip()!r}: {name!r} is a value, not a group of settings")
        value = _parsed(text.strip())
        if isinstance(table.get(last), dict) and isinstance(value, str):
            table[last]["name"] = value
        else:
            table[last] = value
    return result


def explained(settings: Settings, group: str = "") -> Iterator[tuple[str, Any, str]]:
    """Each dotted key of some settings, with its value and what it means.

    Args:
        settings: A group, which may hold others.
        group: What keys begin with.
    """
    for name, field in type(settings).model_fields.items():
        value = getattr(settings, name)
        if isinstance(value, Settings):
            yield from explained(value, f"{group}{name}.")
            continue
        yield f"{group}{name}", value, _meaning(field)
        inner = _inner_model(field.annotation)
        for rest, inside in (inner.model_fields if inner else {}).items():
            default = inside.get_default(call_default_factory=True)
            meaning = f"{default} where {group}{name} is asked for. {_meaning(inside)}"
            yield f"{group}{name}.{rest}", None, meaning


def _meaning(field: FieldInfo) -> str:
    """A field's docstring in one line, after the words that it may take."""
    words = " ".join((field.description or "").replace("``", "").split())
    if get_origin(field.annotation) is Literal:
        return f"{', '.join(map(str, get_args(field.annotation)))}. {words}".strip()
    return words


def differences(first: Mapping[str, Any], second: Mapping[str, Any]) -> list[tuple[str, Any, Any]]:
    """Each dotted key at which two settings tables differ, with both values (None if absent).

    Example:
        >>> differences({"a": {"b": 1}, "c": 2}, {"a": {"b": 3}, "c": 2})
        [('a.b', 1, 3)]
    """
    found = []
    for key in dict.fromkeys([*first, *second]):
        one, two = first.get(key), second.get(key)
        if isinstance(one, Mapping) and isinstance(two, Mapping):
            found += [(f"{key}.{rest}", a, b) for rest, a, b in differences(one, two)]
        elif one != two:
            found.append((key, one, two))
    return found


def nearest(word: str, known: Iterable[str]) -> str:
    """The known words as a list, the nearest to ``word`` first: for error messages."""
    known = list(known)
    near = difflib.get_close_matches(word, known, n=3, cutoff=0.5)
    if near:
        return f"nearest: {', '.join(near)}"
    return f"known: {', '.join(known)}"


def _copied(values: Mapping[str, Any]) -> dict[str, Any]:
    return {k: _copied(v) if isinstance(v, Mapping) else v for k, v in values.items()}


def _parsed(text: str) -> Any:  # noqa: ANN401
    try:
        return toml_table(f"value = {text}")["value"]
    except ValueError:
        return text


def _sentence(error: ValidationError, model: type[BaseModel]) -> str:
    errors = error.errors()
    # A mistyped key may be why another is missing, so it comes first.
    first = next((e for e in errors if e["type"] == "extra_forbidden"), errors[0])
    key, inner = _place(model, first["loc"])
    if first["type"] == "extra_forbidden":
        wrong = str(first["loc"][-1])
        whole = f"{key}.{wrong}" if key else wrong
        return f"unknown setting {whole!r}; {_nearest_keys(wrong, key, inner, model)}"
    if first["type"] == "missing":
        return f"the setting {key!r} is missing; add it"
    # Where one of several kinds of values would do, each has its own error.
    same = [e for e in errors if _place(model, e["loc"])[0] == key and e["type"] != "missing"]
    reason = ", or ".join(dict.fromkeys(_reason(e) for e in same))
    where = f"setting {key!r}: " if key else ""
    shown = "" if isinstance(first["input"], Mapping) else f", got {first['input']!r}"
    return f"{where}{reason}{shown}"


# How alike names must be: of another group only what is nearly the same.
_ALIKE, _ALIKE_ELSEWHERE = 0.5, 0.75


def _nearest_keys(wrong: str, group: str, inner: type[BaseModel], whole: type[BaseModel]) -> str:
    """The whole keys nearest to a mistyped one, or all of its group; a key may lack its group."""
    here = f"{group}." if group else ""
    alike = {}
    for key in (*(f"{here}{name}" for name in inner.model_fields), *_dotted_keys(whole)):
        before, _, name = key.rpartition(".")
        ratio = difflib.SequenceMatcher(a=name, b=wrong).ratio()
        if ratio >= (_ALIKE if before == group else _ALIKE_ELSEWHERE):
            alike[key] = ratio
    same = [key for key, ratio in alike.items() if ratio == 1]
    near = same or sorted(alike, key=lambda key: -alike[key])
    if near:
        return f"nearest: {', '.join(near[:3])}"
    return f"known: {', '.join(f'{here}{name}' for name in inner.model_fields)}"


def _dotted_keys(model: type[BaseModel], group: str = "") -> Iterator[str]:
    """All keys of a model, those of the groups in it with their group."""
    for name, field in model.model_fields.items():
        inner = _inner_model(field.annotation)
        if inner is None:
            yield f"{group}{name}"
        else:
            yield from _dotted_keys(inner, f"{group}{name}.")


def _reason(error: ErrorDetails) -> str:
    if error["type"] == "value_error":
        return str(error["ctx"]["error"])
    if error["type"] == "model_type":
        return "should be a group of settings"
    return error["msg"][:1].lower() + error["msg"][1:]


def _place(model: type[BaseModel], loc: tuple[int | str, ...]) -> tuple[str, type[BaseModel]]:
    """The dotted key of an error without pydantic's names of types, and the model it lies in."""
    key = ""
    for part in loc:
        if isinstance(part, int):
            key += f"[{part}]"
        elif part in model.model_fields:
            key += f".{part}" if key else part
            model = _inner_model(model.model_fields[part].annotation) or model
    return key, model


def _inner_model(annotation: Any) -> type[BaseModel] | None:  # noqa: ANN401
    """The model that a field holds, also where it may be None."""
    for kind in (annotation, *get_args(annotation)):
        if isinstance(kind, type) and issubclass(kind, BaseModel):
            return kind
    return None
