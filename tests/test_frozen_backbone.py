"""The study of a frozen network: pairs of cached views, labels of photographs, its lines."""

import sys
from importlib import import_module
from pathlib import Path

import pytest
import torch

from nonneg.data.dataset import ArrayData
from nonneg.pairs import Batch, Draws

ROOT = Path(__file__).parent.parent


@pytest.fixture(scope="module")
def study():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "path", [str(ROOT), *sys.path])
        yield import_module("benchmarks.frozen_backbone")


@pytest.fixture(scope="module")
def views(study):
    return import_module("benchmarks.frozen_views")


def batch_of(numbers, epoch=0):
    nothing = torch.zeros(len(numbers), 1)
    return Batch(nothing, numbers, Draws(0, epoch, numbers), fetch=nothing.__getitem__)


def test_a_pair_is_two_different_views_of_the_same_sample(views):
    table = torch.arange(5 * 4).view(5, 4, 1).half()  # the view k of sample n is 4n + k
    numbers = torch.tensor([3, 0, 4])
    seen = set()
    for epoch in range(40):
        first, second = views.CachedViews(table)(batch_of(numbers, epoch))
        assert first.dtype == torch.float32
        assert (first != second).all()
        assert torch.equal(first.flatten() // 4, numbers.float())
        assert torch.equal(second.flatten() // 4, numbers.float())
        seen |= {(int(a), int(b)) for a, b in zip(first % 4, second % 4, strict=True)}
    assert len(seen) == 4 * 3  # every ordered pair


@pytest.mark.parametrize(
    ("captions", "noun"),
    [
        (["A dog .", "Two dogs in the grass .", "A man ."], "dog"),
        (["A man on a bike .", "A man ."], "man"),
        (["A man on a bike ."], "bicycle"),  # of as many captions each: the rarer noun
        (["Hotdogs ."], None),
    ],
)
def test_the_subject_is_the_noun_that_most_captions_name(views, captions, noun):
    number = views.subject(captions)
    assert (None if number < 0 else list(views.NOUNS)[number]) == noun


def test_only_the_projector_of_the_preset_is_trained(study):
    config = study.settings_of("cifar10", study.Choice(0.2, 1e-3), 3)
    assert (config.loss.backbone_weight, config.loss.temperature, config.seed) == (0, 0.2, 3)
    assert config.optimizer.lr == 1e-3
    assert (config.training.reinit_at, config.training.max_on_rate) == (0.33, 0.07)
    assert config.training.keep_angles


def test_samples_without_a_label_count_for_no_figure_of_classes(study, views):
    z = torch.eye(3).repeat(40, 1)
    labels = torch.arange(3).repeat(40)
    images = ArrayData(z, labels=labels)
    part = views.Part(images, views.CachedViews(z[:, None]), torch.arange(120), texts=z)
    found = study.readable(z, images, z, part)
    assert (found["top20_purity"], found["precision"], found["n_dead"]) == (1, 1, 0)
    assert found["captions_of_feature"] == pytest.approx(1)
    wrong = torch.cat([z, z])
    unlabelled = torch.cat([labels, torch.full((120,), -1)])
    more = ArrayData(wrong.roll(1, dims=1), labels=unlabelled)
    part = views.Part(more, part.views, part.rows)
    assert study.readable(wrong, more, more.inputs, part)["top20_purity"] == 1


def test_the_tables_are_of_the_last_line_of_each_run(study, tmp_path, monkeypatch):
    monkeypatch.setattr(study, "RESULTS", tmp_path / "lines.jsonl")
    assert study.lines() == {}
    keys = [key for key in study._SHOWN if not key.startswith("captions")]
    of_all = {**dict.fromkeys(keys, 0.5), "top20_purity_null": 0.25, "core_seconds": 60}
    run = {"set": "cifar10", "temperature": 0.1, "lr": 0.01, "part": "test", **of_all}
    for seed in (0, 1):
        study.append(study.RESULTS, {**run, "method": "CL", "seed": seed})
        study.append(study.RESULTS, {**run, "method": "NCL", "seed": seed, "impurity": 0.9})
        study.append(
            study.RESULTS, {**run, "method": "NCL", "seed": seed, "impurity": 0.2 + 0.1 * seed}
        )
    study.append(
        study.RESULTS, {**run, "method": "CL", "seed": 0, "part": "held_out", "probe": 0.75}
    )
    assert len(study.lines()) == 5
    text = study.tables()
    assert "| seeds 0, 1 | the network's vectors | CL | NCL | NCL against CL |" in text
    assert "| impurity, % | – | 50.00 ± 0.00 | 25.00 ± 7.07 | 0.50 ± 0.14 × |" in text
    assert "| top-20 purity, % (chance 25.0) |" in text
    assert "| CL | 0.1 | 0.01 | 0 | 50.00 | 50.00 | 50.00 | 50.00 | 75.00 |" in text
    assert text.endswith("5 core-minutes, without the encoding.")


def test_the_page_of_the_study_is_up_to_date(study):
    page = study.PAGE.read_text()
    assert study.with_tables(page) == page
