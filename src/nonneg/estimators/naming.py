"""Names of features: no two alike, and found again by their words."""

import re
from collections import Counter, defaultdict
from collections.abc import Sequence
from difflib import get_close_matches
from itertools import count as count_from

# What tells equal names apart.
_COUNT = re.compile(r" \(\d+\)$")


def distinct_names(names: Sequence[str], further: Sequence[Sequence[str]] = ()) -> list[str]:
    """The names, with something added to those that are not the only ones of their kind.

    Args:
        names: Empty ones stay empty.
        further: For each name the words that may be added; the first that no other of the equal
            ones has is taken. Where there is none, all but the first get a count.

    Example:
        >>> distinct_names(["car", "car", "", "pie", "pie"], [["red"], ["fast"], [], [], []])
        ['car, red', 'car, fast', '', 'pie', 'pie (2)']
    """
    longer = list(names)
    alike: defaultdict[tuple[str, ...], list[int]] = defaultdict(list)
    for i, name in enumerate(names):
        alike[tuple(sorted(name.split(", ")))].append(i)  # the same words in another order
    for numbers in alike.values():
        if len(numbers) == 1 or not further:
            continue
        n_with = Counter(word for i in numbers for word in further[i])
        for i in numbers:
            own = next((word for word in further[i] if n_with[word] == 1), None)
            longer[i] = names[i] if own is None or not names[i] else f"{names[i]}, {own}"
    taken = set(longer)
    seen: set[str] = set()
    for i, name in enumerate(longer):
        if name and name in seen:
            count = next(n for n in count_from(2) if f"{name} ({n})" not in taken)
            longer[i] = f"{name} ({count})"
        seen.add(longer[i])
        taken.add(longer[i])
    return longer


def found_names(name: str, names: Sequence[str]) -> list[tuple[int, str]]:
    """The names that are equal to a name but for a count, or else those that hold its words.

    Example:
        >>> names = ["card", "lost card (mixed)", "card (2)", "postcard", ""]
        >>> found_names("Card", names)
        [(0, 'card'), (2, 'card (2)')]
        >>> found_names("lost", names)
        [(1, 'lost card (mixed)')]
    """
    wanted = name.strip().casefold()
    if not wanted:
        return []
    lower = [known.casefold() for known in names]
    exact = [i for i, known in enumerate(lower) if wanted in (known, _COUNT.sub("", known))]
    words = re.compile(rf"(?<!\w){re.escape(wanted)}(?!\w)")
    holding = [i for i, known in enumerate(lower) if words.search(known)]
    return [(i, names[i]) for i in exact or holding]


def near_names(name: str, names: Sequence[str]) -> list[str]:
    """Up to three names, or words of names, that are spelt much like a name.

    Example:
        >>> near_names("crd", ["card, bank", "mortgage"])
        ['card']
    """
    known = dict.fromkeys(part for whole in names for part in (whole, *re.findall(r"\w+", whole)))
    return get_close_matches(name, [part for part in known if part], n=3)
