"""The study of known factors: its pairs, what the theory expects of them, its table and page."""

import itertools
import sys
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest
import torch

from nonneg.data import sprite_factors
from nonneg.data.sprites import Sprites
from nonneg.factorization.identification import identification_score
from nonneg.pairs import Batch, Draws, LabelPairs

ROOT = Path(__file__).parent.parent


@pytest.fixture(scope="module")
def study():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "path", [str(ROOT), *sys.path])
        yield import_module("benchmarks.known_factors")


@pytest.fixture
def some_sprites():
    numbers = torch.arange(3 * 6 * 40 * 32 * 32)
    upright = numbers[sprite_factors(numbers)[:, 2] == 0]
    return Sprites(
        upright[torch.randperm(len(upright), generator=torch.Generator().manual_seed(0))]
    )


def test_values_are_equal_parts_of_the_factors(study, some_sprites):
    values = study.values(some_sprites)
    for column, (name, (i, n_values)) in zip(values.T, study.SHARED.items(), strict=True):
        assert some_sprites.factor_names[i] == name
        assert torch.equal(column, some_sprites.factors[:, i] * n_values // column_size(i))
        assert len(set(column.bincount().tolist())) == 1
        assert column.max() == n_values - 1


def column_size(i):
    return (3, 6, 40, 32, 32)[i]


def test_pairs_share_one_factor_and_others_by_chance_only(study, some_sprites):
    values = study.values(some_sprites)
    numbers = torch.arange(len(values))
    pairs, same = LabelPairs(values), []
    for epoch in range(3):
        batch = Batch(numbers, numbers, Draws(1, epoch, numbers), numbers.__getitem__)
        first, second = pairs(batch)
        same.append(values[first] == values[second])
    found = torch.cat(same).double()
    assert found.any(dim=1).all()
    n_values = torch.tensor([n for _, n in study.SHARED.values()])
    assert found.mean(dim=0) == pytest.approx(1 / 4 + 3 / 4 / n_values, abs=0.01)


def test_the_values_are_what_factorises_the_pairs():
    """By loops over a small grid: ``P(x, x')`` of such pairs, and indicators that reproduce it."""
    sizes = (2, 3, 2)
    grid = list(itertools.product(*map(range, sizes)))
    together = np.zeros((len(grid), len(grid)))
    for (i, x), (j, other), factor in itertools.product(
        enumerate(grid), enumerate(grid), range(len(sizes))
    ):
        if x[factor] == other[factor]:
            n_like = len(grid) // sizes[factor]
            together[i, j] += 1 / len(sizes) / len(grid) / n_like
    assert together.sum() == pytest.approx(1)
    # All samples are equally likely: the normalised matrix is n times this one.
    features = np.array(
        [
            [
                (x[f] == v) * (sizes[f] / len(sizes)) ** 0.5
                for f, n in enumerate(sizes)
                for v in range(n)
            ]
            for x in grid
        ]
    )
    assert features @ features.T / len(grid) == pytest.approx(len(grid) * together)
    # What makes them the only non-negative ones: samples that share nothing never meet.
    shares_none = [[all(a != b for a, b in zip(x, y, strict=True)) for y in grid] for x in grid]
    assert ((together == 0) == np.array(shares_none)).all()


def test_indicators_score_one_and_their_rotation_does_not(study, some_sprites):
    table = study.values(some_sprites)[:2000]
    known = study.indicators(table)
    assert known.shape == (2000, 14)
    assert (known.sum(axis=1) == 4).all()
    assert identification_score(known, known).correlation == pytest.approx(1)
    rotation = np.linalg.qr(np.random.default_rng(0).normal(size=(14, 14)))[0]
    assert identification_score(known @ rotation, known).correlation < 0.7


def test_every_arm_is_a_run_of_its_own_and_groups_differ_by_the_method(study):
    assert len({study.folder_of(arm, 0) for arm in study.ARMS}) == len(study.ARMS)
    for arm in study.ARMS:
        if arm.set_up == study.EXPECTED:
            continue
        methods = [other.method for other in study.ARMS if other.group == arm.group]
        assert methods[:2] == ["CL", "NCL"]
        assert len(set(methods)) == len(methods)


def test_the_table_is_of_the_last_line_of_each_seed(study, tmp_path, monkeypatch):
    monkeypatch.setattr(study, "RESULTS", tmp_path / "lines.jsonl")
    assert study.lines() == []
    cl, ncl = (arm for arm in study.ARMS if arm.group == "whole network, 64 features")
    run = {**dict.fromkeys(study._SHOWN, 0.5), "core_seconds": 60}
    study.append(study.RESULTS, {**run, "arm": cl.title, "seed": 0, "dci_disentanglement": 0.1})
    for seed in range(3):
        study.append(
            study.RESULTS, {**run, "arm": cl.title, "seed": seed, "dci_disentanglement": 0.3}
        )
        gain = 0.6 + seed / 1000
        study.append(
            study.RESULTS, {**run, "arm": ncl.title, "seed": seed, "dci_disentanglement": gain}
        )
    table = study.table()
    assert "| whole network, 64 features | CL | 3 | 0.300 ± 0.000 | 0.500 ± 0.000 |" in table
    assert "| whole network, 64 features | NCL | 3 | 0.601 ± 0.001 * | 0.500 ± 0.000 |" in table
    assert table.endswith("6 core-minutes.")


def test_the_page_of_the_study_is_up_to_date(study):
    page = study.PAGE.read_text()
    assert study.with_table(page) == page
