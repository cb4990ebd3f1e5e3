"""Curating features: renamed, merged and hidden by a person, and put back again."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import Any, Self

from sklearn.utils.validation import check_is_fitted

from nonneg.encoder import Encoder
from nonneg.estimators.description import FeatureDescription
from nonneg.estimators.naming import distinct_names
from nonneg.head.curation import Curation
from nonneg.io import read_json
from nonneg.metrics.results import FloatArray

_KEYS = ("rename", "merge", "hide")


class CuratedFeatures:
    """What an estimator whose features have names and numbers offers to its editor.

    Changes are saved with the estimator and take effect wherever its features are computed. The
    weights, ``expected_activation_`` and ``n_alive_`` stay as they were learnt.
    """

    expected_activation_: FloatArray
    feature_names_: list[str]
    renamed_before_: Mapping[int, str] = MappingProxyType({})
    """The names that renamed features had before, by their numbers."""

    @property
    def curation_(self) -> Curation:
        """Which features are merged, and which are hidden."""
        return self._curated_encoders()[0].curation

    def rename(self, names: Mapping[int | str, str]) -> Self:
        """Give features names of your own, which a later :meth:`describe` leaves alone.

        Args:
            names: The new name of each feature, which is given by its number or its present name,
                as in ``{3: "refunds"}``.
        """
        check_is_fitted(self)
        if not isinstance(names, Mapping):
            raise TypeError(f"rename takes a name for each feature, as {{3: 'tea'}}, got {names!r}")
        chosen = {self._one(which): _checked_name(name) for which, name in names.items()}
        present = self.feature_names_ or [""] * len(self.expected_activation_)
        before = {n: present[n] for n in chosen if n not in self.renamed_before_}
        self.renamed_before_ = {**self.renamed_before_, **before}
        self.feature_names_ = [chosen.get(n, name) for n, name in enumerate(present)]
        return self

    def merge(self, groups: Iterable[Sequence[int | str]]) -> Self:
        """Make each group of features one feature, with the number and name of the first.

        Its value is the length of the group, ``sqrt(Σ z_j²)``, so that what other features add to a
        cosine does not change; the other members become zero for every sample. It counts as one
        feature everywhere, so explanations still add up. :meth:`describe` again to name it by the
        texts of all members.

        Args:
            groups: Such as ``[[3, 17]]``, by numbers or names. A merged feature can be merged on.
        """
        check_is_fitted(self)
        merged = {group[0]: group for group in self.curation_.merged}
        for given in groups:
            if isinstance(given, str) or not isinstance(given, Iterable):
                raise TypeError(f"merge takes groups of features, as [[3, 17]], got {given!r}")
            numbers = list(dict.fromkeys(self._one(which) for which in given))
            if len(numbers) < 2:
                raise ValueError(f"a group needs at least two different features, got {given!r}")
            if off := set(numbers) & set(self.curation_.hidden):
                raise ValueError(f"feature {min(off)} is hidden; restore([{min(off)}]) to merge it")
            members = [merged.pop(number, (number,)) for number in numbers]
            merged[numbers[0]] = tuple(n for group in members for n in group)
        self._curate(merged.values(), self.curation_.hidden)
        return self

    def hide(self, features: Iterable[int | str]) -> Self:
        """Switch features off for every sample, as if the estimator did not have them.

        Args:
            features: By numbers or names; a name stands for all features that it finds.
        """
        check_is_fitted(self)
        if isinstance(features, str) or not isinstance(features, Iterable):
            raise TypeError(f"hide takes a list of features, as [3], got {features!r}")
        numbers = [n for which in features for n in self._numbers(which)]  # type: ignore[attr-defined]
        hidden = {self._one(number) for number in numbers} | set(self.curation_.hidden)
        self._curate(self.curation_.merged, sorted(hidden))
        return self

    def restore(self, features: Iterable[int] | None = None) -> Self:
        """Undo all that was changed about some features, or about all.

        Args:
            features: By numbers, also of hidden and merged ones; a merged feature falls apart into
                all its members. None: every change is undone.
        """
        check_is_fitted(self)
        every = range(len(self.expected_activation_))
        chosen = set(every) if features is None else {self._known_number(n) for n in features}
        groups = [group for group in self.curation_.merged if chosen.isdisjoint(group)]
        self._curate(groups, [n for n in self.curation_.hidden if n not in chosen])
        before = {n: name for n, name in self.renamed_before_.items() if n in chosen}
        self.feature_names_ = [before.get(n, name) for n, name in enumerate(self.feature_names_)]
        if not any(self.feature_names_):
            self.feature_names_ = []
        self.renamed_before_ = {
            n: name for n, name in self.renamed_before_.items() if n not in chosen
        }
        return self

    def curate(self, changes: Mapping[str, Any] | str | Path) -> Self:
        """Apply changes of all kinds, such as those of a page of the atlas; all of them or none.

        Args:
            changes: ``{"rename": {"3": "refunds"}, "merge": [[3, 17]], "hide": [5]}``, each of
                which may be left out, or the path of a JSON file with this content.
        """
        check_is_fitted(self)
        told = changes
        if isinstance(changes, str | Path):
            told = read_json(Path(changes), remedy="download it from the page again")
        checked = _checked_changes(told)
        before = self.feature_names_, self.renamed_before_, self.curation_
        try:
            self.rename({self._number_of_key(key): name for key, name in checked["rename"].items()})
            self.merge(checked["merge"])
            self.hide(checked["hide"])
        except (TypeError, ValueError):
            self.feature_names_, self.renamed_before_, curation = before
            self._curate(curation.merged, curation.hidden)
            raise
        return self

    def _forget_names(self) -> None:
        """Begin without names, as after a fit."""
        self.feature_names_, self.renamed_before_ = [], {}

    def _with_names(self, described: Sequence[FeatureDescription]) -> list[FeatureDescription]:
        """Take over found names, and give the descriptions with the names that hold.

        Names of a person stay, and so do those of features that are hidden or a part of another.
        """
        given = {n: self.feature_names_[n] for n in self.renamed_before_}
        curation, before = self.curation_, self.feature_names_
        unseen = {*curation.hidden, *curation.merged_away} if before else set()
        found = [before[n] if n in unseen else one.name for n, one in enumerate(described)]
        self.renamed_before_ = {n: found[n] for n in given}
        others = distinct_names([*given.values(), *found])[len(given) :]
        self.feature_names_ = [given.get(n, name) for n, name in enumerate(others)]
        named = zip(described, self.feature_names_, strict=True)
        return [
            one if n in unseen else replace(one, name=name) for n, (one, name) in enumerate(named)
        ]

    def _curated_encoders(self) -> list[Encoder]:
        check_is_fitted(self)
        return [getattr(self, name) for name in self._encoder_folders]  # type: ignore[attr-defined]

    def _curate(self, merged: Iterable[Sequence[int]], hidden: Iterable[int]) -> None:
        told = {"merged": [list(group) for group in merged], "hidden": list(hidden)}
        curation = Curation.of(told, len(self.expected_activation_))
        for encoder in self._curated_encoders():
            encoder.curation = curation

    def _one(self, which: int | str) -> int:
        """The number of one feature that is not a part of another."""
        numbers: list[int] = self._numbers(which)  # type: ignore[attr-defined]
        if len(numbers) > 1:
            called = ", ".join(str(number) for number in numbers)
            raise ValueError(f"{which!r} stands for features {called}; give one of these numbers")
        number = self._known_number(numbers[0])
        for group in self.curation_.merged:
            if number in group[1:]:
                raise ValueError(
                    f"feature {number} is a part of feature {group[0]}; give {group[0]} instead"
                )
        return number

    def _known_number(self, number: Any) -> int:  # noqa: ANN401
        n_features = len(self.expected_activation_)
        if isinstance(number, bool) or not hasattr(number, "__index__"):
            raise TypeError(f"a feature is given by its number, got {number!r}")
        if not 0 <= number < n_features:
            raise ValueError(
                f"there is no feature {number}; they are numbered 0 to {n_features - 1}"
            )
        return int(number)

    def _number_of_key(self, key: str) -> int:
        """The feature of a key of a JSON object, where numbers are texts."""
        if not key.isdecimal():
            raise ValueError(f"rename has the key {key!r}; give the number of a feature")
        return self._known_number(int(key))


def _checked_name(name: str) -> str:
    if not isinstance(name, str) or not name.strip():
        raise ValueError(f"a name is a text that is not empty, got {name!r}; see restore")
    return name.strip()


def _checked_changes(told: Any) -> dict[str, Any]:  # noqa: ANN401
    """Changes with all their keys, or a sentence on what is wrong with their shape."""
    if not isinstance(told, Mapping):
        raise ValueError(f"changes are a table with {', '.join(_KEYS)}, got {type(told).__name__}")
    unknown = sorted(set(told) - {*_KEYS, "nonneg"})
    if unknown or told.get("nonneg", "changes") != "changes":
        what = f"the key {unknown[0]!r}" if unknown else f"nonneg = {told['nonneg']!r}"
        raise ValueError(f"changes have {what}; they may have {', '.join(_KEYS)}")
    rename, merge, hide = told.get("rename", {}), told.get("merge", []), told.get("hide", [])
    if not isinstance(rename, Mapping):
        raise ValueError(f"rename gives each number a name, as {{'3': 'tea'}}, got {rename!r}")
    for name, value in (("merge", merge), ("hide", hide)):
        if not isinstance(value, list | tuple):
            raise ValueError(f"{name} is a list, got {value!r}")
    return {
        "rename": {str(key): name for key, name in rename.items()},
        "merge": merge,
        "hide": hide,
    }
