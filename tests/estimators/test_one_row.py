"""One vector at a time: few calls besides the arithmetic, and nothing less is checked."""

import sys
import threading
import warnings

import numpy as np
import pytest
from twelve_kinds import N_COLUMNS, QUICK, X_NEW, X, Y

from nonneg.estimators import NCL, CrossNCL
from nonneg.estimators.inputs import CrossSettings, NCLSettings, check_finite

# Version 0.1.0 made about 1,500 calls for one row; the encoder itself makes about 200.
MOST_CALLS = 600


@pytest.fixture(scope="module", params=["NCL", "CrossNCL"])
def fitted(request):
    if request.param == "NCL":
        return NCL(**QUICK).fit(X)
    return CrossNCL(**QUICK, noise=0.3).fit(X, np.eye(12)[Y])


@pytest.fixture
def own(fitted):
    """With parameters that a test may change."""
    before = fitted.get_params()
    yield fitted
    fitted.set_params(**before)


def n_calls(function):
    """Calls of Python and of built-in functions."""
    counted = 0

    def count(_frame, event, _what):
        nonlocal counted
        counted += event in ("call", "c_call")

    before = sys.getprofile()
    sys.setprofile(count)
    try:
        function()
    finally:
        sys.setprofile(before)
    return counted


def test_one_row_takes_few_calls(fitted):
    row = X_NEW[:1]
    fitted.transform(row)
    assert n_calls(lambda: fitted.transform(row)) < MOST_CALLS


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.float16, ">f4", np.int64])
def test_a_row_has_the_features_that_it_has_among_others(fitted, dtype):
    rows = (10 * X_NEW).astype(dtype)
    together = fitted.transform(rows)
    for i in (0, 100, 719):
        np.testing.assert_allclose(
            fitted.transform(rows[[i]])[0], together[i], rtol=1e-3, atol=1e-4
        )


def test_rows_that_skip_a_check_have_the_features_of_those_that_pass_it(fitted):
    """A list passes all of scikit-learn's checks, an array is seen at once to be fine."""
    np.testing.assert_array_equal(fitted.transform(X_NEW[:1]), fitted.transform(X_NEW[:1].tolist()))
    given = X_NEW[:1].copy()
    fitted.transform(given)
    np.testing.assert_array_equal(given, X_NEW[:1])


def as_matrix(rows):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PendingDeprecationWarning)
        return np.asmatrix(rows)


def with_entry(value):
    row = X_NEW[:1].copy()
    row[0, 3] = value
    return row


@pytest.mark.parametrize(
    ("row", "error", "sentence"),
    [
        (with_entry(np.nan), ValueError, "NaN or infinity .* in 1 of 1 rows: 0; remove or repair"),
        (with_entry(-np.inf), ValueError, "NaN or infinity"),
        (with_entry(1e300), ValueError, "numbers beyond float32"),
        (X_NEW[0], ValueError, "Expected 2D array, got 1D array instead"),
        (X_NEW[:1, :3], ValueError, f"X has 3 features, but .* is expecting {N_COLUMNS} features"),
        (X_NEW[:0], ValueError, r"0 sample\(s\) .* while a minimum of 1 is required"),
        (X_NEW[None, :1], ValueError, "Found array with dim 3"),
        (X_NEW[:1] + 1j, ValueError, "Complex data not supported"),
        (np.full((1, N_COLUMNS), "one"), ValueError, "not compatible with arrays of bytes"),
        (np.full((1, N_COLUMNS), None), ValueError, "NaN or infinity"),
        (as_matrix(X_NEW[:1]), TypeError, "np.matrix is not supported"),
        (["a text"], ValueError, "X holds texts, not vectors; embed them first"),
    ],
)
@pytest.mark.filterwarnings("ignore:overflow encountered in cast:RuntimeWarning")
def test_a_bad_row_gets_its_sentence(fitted, row, error, sentence):
    with pytest.raises(error, match=sentence):
        fitted.transform(row)


@pytest.mark.filterwarnings("ignore:overflow encountered in cast:RuntimeWarning")
def test_numbers_are_finite_one_by_one():
    """Also where their sum is not, or where infinities would cancel."""
    check_finite(np.full((2, 3), 3e38, dtype=np.float32))
    for bad in ([[np.inf, -np.inf]], [[0.0, 1e39]], [[np.nan, 0.0]]):
        with pytest.raises(ValueError, match="in 1 of 1 rows: 0"):
            check_finite(np.array(bad))


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"temperature": 0.0}, "setting 'temperature'.*got 0.0"),
        ({"max_active": 0}, "setting 'max_active'.*got 0"),
        ({"sparse_output": "perhaps"}, "setting 'sparse_output'.*got 'perhaps'"),
        ({"device": "gpu9"}, "unknown device"),
        ({"nonnegative": "abs"}, "unknown transform"),
    ],
)
def test_parameters_that_changed_are_checked(own, changes, sentence):
    own.set_params(**changes)
    with pytest.raises(ValueError, match=sentence):
        own.transform(X_NEW[:1])


def test_parameters_that_changed_count(own):
    whole = own.transform(X_NEW[:1])
    own.max_active = 1
    assert (own.transform(X_NEW[:1]) > 0).sum() == 1
    own.set_params(max_active=None, sparse_output=True)
    np.testing.assert_array_equal(own.transform(X_NEW[:1]).toarray(), whole)


@pytest.mark.parametrize(("kind", "settings"), [(NCL, NCLSettings), (CrossNCL, CrossSettings)])
def test_present_settings_are_those_of_all_parameters(kind, settings):
    estimator = kind(n_components=np.int64(8), max_active=3, max_steps=7)
    assert settings.now(estimator) == settings.of(estimator.get_params())


def test_names_of_columns_that_are_missing_are_warned_of():
    pandas = pytest.importorskip("pandas")
    names = [f"column {i}" for i in range(N_COLUMNS)]
    ncl = NCL(**{**QUICK, "max_steps": 5}).fit(pandas.DataFrame(X, columns=names))
    with pytest.warns(UserWarning, match="X does not have valid feature names"):
        ncl.transform(X_NEW[:1])


def test_threads_share_an_estimator(fitted):
    expected = [fitted.transform(X_NEW[[i]]) for i in range(40)]
    found = [None] * 40

    def work(start):
        for i in range(start, 40, 4):
            found[i] = fitted.transform(X_NEW[[i]])

    threads = [threading.Thread(target=work, args=(start,)) for start in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    np.testing.assert_array_equal(found, expected)
