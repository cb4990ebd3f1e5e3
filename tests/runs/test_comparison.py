"""A winner is named only where the spread allows it."""

import math
import random

import pytest

from nonneg.metrics.figures import Figure
from nonneg.runs.comparing import _curation_text, _the_same, comparison_rows


def group(values, **facts):
    return {seed: {"probe": Figure(value, **facts)} for seed, value in enumerate(values)}


def row(first, second, higher_is_better=True):
    facts = {"higher_is_better": higher_is_better}
    (only,) = comparison_rows({"CL": group(first, **facts), "NCL": group(second, **facts)})
    return only


def test_means_stds_and_paired_differences_by_hand():
    found = row([0.1, 0.2, 0.3], [0.2, 0.2, 0.5])
    assert found.spreads["CL"].mean == pytest.approx(0.2)
    assert found.spreads["CL"].std == pytest.approx(0.1)
    assert found.differences["NCL"].mean == pytest.approx(0.1)
    assert found.differences["NCL"].std == pytest.approx(0.1)
    assert found.differences["NCL"].n == 3
    assert found.winner is None  # 0.1 ± 4.303 · 0.1 / √3


def test_pairing_finds_what_the_spread_over_seeds_hides():
    found = row([0.1, 0.5, 0.9], [0.12, 0.519, 0.921])
    assert found.spreads["CL"].std > 10 * found.differences["NCL"].mean
    assert found.winner == "NCL"


def test_the_direction_decides_the_winner():
    assert row([0.1, 0.2, 0.3], [0.2, 0.3, 0.401], higher_is_better=False).winner == "CL"
    assert row([0.1, 0.2, 0.3], [0.2, 0.3, 0.401], higher_is_better=None).winner is None


@pytest.mark.parametrize("n", [1, 2])
def test_fewer_than_three_pairs_have_no_winner(n):
    found = row([0.1, 0.1001][:n], [0.9, 0.9001][:n])
    assert found.differences["NCL"].n == n
    assert found.winner is None


def test_only_shared_seeds_are_paired():
    cl = {seed: {"probe": Figure(0.1 * seed, True)} for seed in (0, 1, 2)}
    ncl = {seed: {"probe": Figure(0.1 * seed + 0.5, True)} for seed in (1, 2, 3)}
    (found,) = comparison_rows({"CL": cl, "NCL": ncl})
    assert found.differences["NCL"].n == 2
    assert found.differences["NCL"].mean == pytest.approx(0.5)


def test_a_figure_that_one_group_lacks():
    cl = {0: {"probe": Figure(0.1, True)}}
    ncl = {0: {"probe": Figure(0.2, True), "sepin": Figure(3.0, True)}}
    found = {r.name: r for r in comparison_rows({"CL": cl, "NCL": ncl})}
    assert found["sepin"].spreads["CL"] is None
    assert found["sepin"].differences["NCL"] is None
    assert found["sepin"].winner is None


def test_what_could_not_be_measured_is_left_out():
    found = row([math.nan, 0.2, 0.3], [0.5, 0.6, 0.7])
    assert found.spreads["CL"].n == 2
    assert found.differences["NCL"].n == 2


def test_nulls_are_the_mean_over_the_seeds_that_have_one():
    cl = {seed: {"purity": Figure(0.5, beside={"null": null})} for seed, null in enumerate((1, 2))}
    ncl = {0: {"purity": Figure(0.5, beside={"null": None})}, 1: {"purity": Figure(0.5)}, 2: {}}
    (found,) = comparison_rows({"CL": cl, "NCL": ncl})
    assert found.nulls == {"CL": 1.5, "NCL": None}


def test_noise_wins_about_one_time_in_twenty():
    generator = random.Random(0)
    wins = sum(
        row(*([generator.gauss(0, 1) for _ in range(5)] for _ in range(2))).winner is not None
        for _ in range(2000)
    )
    assert 0.03 < wins / 2000 < 0.07


def test_the_best_of_several_groups_is_marked_and_the_first_only_if_it_beats_all():
    facts = {"higher_is_better": True}
    first = group([0.5, 0.6, 0.7], **facts)
    better, best = group([0.6, 0.7, 0.801], **facts), group([0.8, 0.9, 1.001], **facts)
    worse = group([0.4, 0.5, 0.601], **facts)
    assert comparison_rows({"CL": first, "a": better, "b": best})[0].winner == "b"
    assert comparison_rows({"CL": first, "a": worse})[0].winner == "CL"
    unsure = group([0.4, 0.9, 0.6], **facts)
    assert comparison_rows({"CL": first, "a": worse, "b": unsure})[0].winner is None


def test_runs_are_compared_on_one_set_only():
    one = {"name": "test", "n_samples": 60, "digest": "a"}
    assert _the_same([one, dict(one)]) == "test"
    for other in (
        {**one, "digest": "b"},
        {**one, "n_samples": 61},
        {"name": "test", "n_samples": 60},
    ):
        with pytest.raises(ValueError, match="each was measured on another test; evaluate all"):
            _the_same([one, other])
    with pytest.raises(ValueError, match="runs on different data cannot be compared: mine, test"):
        _the_same([one, {"name": "mine", "n_samples": 60}])


def test_curations_are_told_apart_in_few_words():
    assert _curation_text({}) == "none"
    assert _curation_text({"merged": [], "hidden": [3]}) == "hidden 3"
    many = [_curation_text({"merged": [], "hidden": [*range(100), last]}) for last in (200, 201)]
    assert all(text.startswith("0 merged, 101 hidden, ") and len(text) < 45 for text in many)
    assert many[0] != many[1]
