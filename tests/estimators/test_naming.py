"""Names: no two alike, found by their words, and the columns of what transform gives."""

import pickle
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from twelve_kinds import X, Y

from nonneg import NCL, CrossNCL
from nonneg.estimators.naming import distinct_names, found_names, near_names

NAMES = st.lists(st.sampled_from(["", "a", "b", "a (2)", "a, c", "ncl1"]), max_size=8)


@given(NAMES, st.lists(st.lists(st.sampled_from("cdef"), unique=True), min_size=8, max_size=8))
def test_names_become_distinct_and_keep_their_beginning(names, further):
    found = distinct_names(names, further[: len(names)])
    given = [name for name in found if name]
    assert len(given) == len(set(given))
    for before, after in zip(names, found, strict=True):
        assert after.startswith(before)
        assert bool(after) == bool(before)
        assert after == before or names.count(before) > 1 or before in ("a (2)", "a, c")


def test_further_words_are_those_that_the_equal_ones_do_not_share():
    names = ["band", "band", "band", "film"]
    further = [["rock", "tour"], ["rock", "chart"], ["rock"], ["oscar"]]
    assert distinct_names(names, further) == ["band, tour", "band, chart", "band", "film"]
    turned = distinct_names(["rock, band", "band, rock"], [["tour"], ["chart"]])
    assert turned == ["rock, band, tour", "band, rock, chart"]


def test_a_name_is_found_exactly_or_by_whole_words():
    names = ["credit card, lost", "card", "discard", "Card (2)", "CREDIT (mixed)", "", "c++ + x"]
    assert [i for i, _ in found_names("card", names)] == [1, 3]
    assert [i for i, _ in found_names("Credit Card", names)] == [0]
    assert [i for i, _ in found_names("credit", names)] == [0, 4]
    assert [i for i, _ in found_names("c++", names)] == [6]
    assert found_names("car", names) == found_names("", names) == found_names(" ", names) == []
    assert near_names("crad", ["card, bank", "loan"]) == ["card"]


@pytest.fixture(scope="module")
def named():
    ncl = NCL(n_components=32, max_steps=60, random_state=0).fit(X)
    ncl.describe(X, texts=[f"sample of kind{y}" for y in Y], n_words=1)
    return ncl


def test_columns_are_called_as_describe_says(named):
    ncl = copied(named)
    names = ncl.get_feature_names_out()
    assert names.dtype == object
    assert len(set(names)) == 32
    for i, name in enumerate(ncl.feature_names_):
        assert names[i] == (name or f"ncl{i}")


def test_columns_of_data_frames_are_called_so_too(named):
    pytest.importorskip("pandas", reason="pandas is not installed")
    ncl = copied(named)
    names = ncl.get_feature_names_out()
    frame = ncl.set_output(transform="pandas").transform(X[:5])
    assert list(frame.columns) == list(names)


def test_columns_stay_distinct_whatever_the_names_are(named):
    ncl = copied(named)
    ncl.feature_names_ = ["ncl3", "same", "same", "", *ncl.feature_names_[4:]]
    names = ncl.get_feature_names_out().tolist()
    assert names[:4] == ["ncl3", "same", "same (2)", "ncl3 (2)"]
    assert len(set(names)) == 32
    ncl.feature_names_ = []
    assert ncl.get_feature_names_out().tolist() == [f"ncl{i}" for i in range(32)]


def copied(ncl):
    return pickle.loads(pickle.dumps(ncl))


def test_an_edit_takes_what_find_finds(named):
    Z = named.transform(X)
    found = named.find("kind3")
    assert found
    assert all(name.split(" (")[0] == "kind3" for _, name in found)
    numbers = [i for i, _ in found]
    np.testing.assert_array_equal(named.edit(Z, remove=["kind3"]), named.edit(Z, remove=numbers))
    with pytest.raises(ValueError, match=r"no feature is called 'knd3'; near: .*'kind3'.*$"):
        named.edit(Z, remove=["knd3"])
    with pytest.raises(ValueError, match=r"is boosted by 2 and 3; name it once"):
        named.edit(Z, boost={"kind3": 2, numbers[0]: 3})


def test_an_edit_says_what_it_took_where_somebody_reads_along(named, capsys, monkeypatch):
    Z = named.transform(X)
    named.edit(Z, remove=["kind3", 1])
    assert capsys.readouterr().out == ""
    monkeypatch.setattr(sys, "ps1", ">>> ", raising=False)
    named.edit(Z, remove=["kind3", 1])
    number, name = named.find("kind3")[0]
    said = capsys.readouterr().out
    assert said.startswith(f"'kind3' stands for {number} {name}")
    assert said.count("\n") == 1


def test_the_longest_lists_are_cut(named, capsys):
    ncl = copied(named).set_params(verbose=1)
    ncl.feature_names_ = [f"card {i}x" for i in range(32)]
    ncl.edit(ncl.transform(X), boost={"card": 2.0})
    assert capsys.readouterr().out.rstrip().endswith("9 card 9x and 22 more, see find()")


def test_both_sides_of_pairs_have_these_names():
    both = CrossNCL(n_components=16, max_steps=30, random_state=0).fit(X, X)
    asked = []

    def namer(words, examples):
        asked.append((words, examples))
        return f"about {words[0]}" if words else ""

    texts = [f"kind{y}" for y in Y]
    of_x, of_y = both.describe(X, X, texts=texts, namer=namer, tokenize=str.split)
    assert len(asked) == sum(bool(d.top) for d in of_y)
    assert both.feature_names_ == [d.name for d in of_y]
    assert any(name.startswith("about kind") for name in both.feature_names_)
    assert not any(d.name.startswith("about") for d in of_x)
    names = both.get_feature_names_out().tolist()
    assert len(set(names)) == 16
    number, name = next((i, name) for i, name in enumerate(both.feature_names_) if name)
    assert (number, name) in both.find(name)
