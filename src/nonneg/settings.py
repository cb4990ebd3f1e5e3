"""How are settings written down? As frozen models in which an unknown key is an error."""

import difflib
import tomllib
from collections.abc import Iterable, Mapping
from typing import Any, Self

from pydantic import BaseModel, ConfigDict, ValidationError


class Settings(BaseModel):
    """A frozen group of settings. Its errors are one sentence each, with the nearest known key."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

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
            raise ValueError(
                f"{assignment!r} is not a setting; write key=value, as optimizer.lr=0.3"
            )
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
        return tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        return text


def _sentence(error: ValidationError, model: type[BaseModel]) -> str:
    first = error.errors()[0]
    path = [str(part) for part in first["loc"]]
    key = ".".join(path)
    if first["type"] == "extra_forbidden":
        return f"unknown setting {key!r}; {nearest(path[-1], _known_keys(model, path[:-1]))}"
    if first["type"] == "missing":
        return f"the setting {key!r} is missing"
    reason = str(first["ctx"]["error"]) if first["type"] == "value_error" else first["msg"].lower()
    where = f"setting {key!r}: " if key else ""
    shown = "" if isinstance(first["input"], Mapping) else f", got {first['input']!r}"
    return f"{where}{reason}{shown}"


def _known_keys(model: type[BaseModel], path: list[str]) -> list[str]:
    """The field names of the model at a path of nested models."""
    for part in path:
        field = model.model_fields.get(part)
        inner = field.annotation if field else None
        if not (isinstance(inner, type) and issubclass(inner, BaseModel)):
            break
        model = inner
    return list(model.model_fields)
