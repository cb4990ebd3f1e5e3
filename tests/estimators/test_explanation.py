import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nonneg.estimators.reading import explanation

ROWS = st.lists(st.floats(0, 10, width=32), min_size=4, max_size=4)


@settings(deadline=None)
@given(ROWS, ROWS)
def test_contributions_add_up_to_the_cosine(first, second):
    found = explanation(first, second)
    lengths = math.sqrt(sum(x * x for x in first)) * math.sqrt(sum(x * x for x in second))
    cosine = sum(x * y for x, y in zip(first, second, strict=True)) / lengths if lengths else 0.0
    assert found.cosine == pytest.approx(cosine, abs=1e-9)
    assert sum(s.contribution for s in found.shared) == pytest.approx(cosine, abs=1e-9)
    parts = [s.contribution for s in found.shared]
    assert parts == sorted(parts, reverse=True)


def test_a_sample_with_itself_shows_its_make_up():
    found = explanation([0.0, 3.0, 4.0], [0.0, 3.0, 4.0], names=["a", "b", "c"])
    assert [(s.name, s.feature) for s in found.shared] == [("c", 2), ("b", 1)]
    assert [s.contribution for s in found.shared] == pytest.approx([0.64, 0.36])
    assert [s.first for s in found.shared] == pytest.approx([0.8, 0.6])


def test_nothing_in_common():
    found = explanation([1.0, 0.0], [0.0, 1.0])
    assert (found.cosine, found.shared) == (0.0, ())
    assert str(explanation(np.zeros(2), np.ones(2))) == "cosine 0.000"


@settings(deadline=None)
@given(ROWS, ROWS, st.one_of(st.none(), st.integers(0, 5)))
def test_the_largest_and_the_rest_add_up_to_the_cosine(first, second, n):
    found = explanation(first, second, n=n)
    assert found.shared == explanation(first, second).shared == (*found.largest, *found.rest)
    assert len(found.largest) == min(len(found.shared), 4 if n is None else n)
    lines = str(found).splitlines()
    assert len(lines) == 1 + len(found.largest) + bool(found.rest)


def test_the_rest_is_one_line():
    row = [4.0] + [1.0] * 9
    lines = str(explanation(row, row, n=7)).splitlines()
    assert lines[1] == "  +0.640  feature 0"
    assert lines[-1] == "  +0.120  3 more features"
    assert str(explanation(row, row, n=9)).splitlines()[-1] == "  +0.040  1 more feature"
    assert len(str(explanation(row, row)).splitlines()) == 11
    assert len(str(explanation([1.0] * 30, [1.0] * 30, n=None)).splitlines()) == 31
    for wrong in (-1, 2.5, True, "3"):
        with pytest.raises(ValueError, match="give a whole number of features to show, or None"):
            explanation(row, row, n=wrong)
