import math

import pytest
import torch
from scipy import stats

from nonneg.pairs import Draws, ViewSettings, recipe
from nonneg.pairs.view_settings import drawn_plan

N = 20_000


def plan_of(settings, *, stretch=1.0, n=N):
    return drawn_plan(settings, Draws(0, 0, torch.arange(n)), streams=[1], stretch=stretch)


def uniform_pvalue(numbers, low, high):
    return stats.kstest(numbers.double().numpy(), "uniform", args=(low, high - low)).pvalue


def test_no_settings_give_the_plan_that_changes_nothing():
    plan = plan_of(ViewSettings(), n=50)
    assert torch.equal(plan.boxes, torch.tensor([0.0, 0, 1, 1]).expand(50, 4))
    for factor in (plan.brightness, plan.contrast, plan.saturation):
        assert torch.equal(factor, torch.ones(50))
    for other in (plan.hue, plan.sigma, plan.mirrored, plan.solarised):
        assert not other.any()


def test_crops_lie_in_the_image_with_even_area_and_log_ratio():
    settings = ViewSettings(crop_scale=(0.1, 0.6), crop_ratio=(0.7, 1.5))
    top, left, height, width = plan_of(settings).boxes.unbind(1)
    assert torch.stack([top, left]).min() >= 0
    assert torch.stack([top + height, left + width]).max() <= 1 + 1e-6
    assert uniform_pvalue(height * width, 0.1, 0.6) > 1e-3
    assert uniform_pvalue((width / height).log(), math.log(0.7), math.log(1.5)) > 1e-3
    assert uniform_pvalue(top / (1 - height), 0, 1) > 1e-3
    assert uniform_pvalue(left / (1 - width), 0, 1) > 1e-3
    numbers = torch.stack([height * width, width / height, top / (1 - height), left / (1 - width)])
    assert (torch.corrcoef(numbers) - torch.eye(4)).abs().max() < 5 / math.sqrt(N)


def test_large_crops_keep_an_even_area_and_take_the_ratios_that_fit():
    _, _, height, width = plan_of(recipe("colour")).boxes.unbind(1)
    assert uniform_pvalue(height * width, 0.08, 1) > 1e-3
    assert torch.stack([height, width]).max() <= 1
    ratio = width / height
    assert 0.75 - 1e-4 < ratio.min() < 0.76
    assert 1.32 < ratio.max() < 4 / 3 + 1e-4


def test_ratio_is_that_of_the_pixels_for_a_view_of_another_shape():
    # Images twice as wide as high, square views: a ratio of 1 takes half the share across.
    stretch = torch.full((N,), 2.0)
    settings = ViewSettings(crop_scale=(0.1, 0.4))
    _, _, height, width = plan_of(settings, stretch=stretch).boxes.unbind(1)
    torch.testing.assert_close(height, 2 * width)
    assert uniform_pvalue(height * width, 0.1, 0.4) > 1e-3


@pytest.mark.parametrize(("stretch", "size"), [(3.0, (1.0, 0.5)), (1 / 3, (0.5, 1.0))])
def test_crop_that_cannot_fit_is_shrunk_to_the_nearest_ratio(stretch, size):
    ratio = 1.5 if stretch > 1 else 1 / 1.5
    settings = ViewSettings(crop_scale=(0.9, 0.9), crop_ratio=(1 / 1.5, 1.5))
    boxes = plan_of(settings, stretch=stretch, n=100).boxes
    torch.testing.assert_close(boxes[:, 2:], torch.tensor([size]).expand(100, 2))
    torch.testing.assert_close(boxes[:, 3] / boxes[:, 2] * stretch, torch.full((100,), ratio))


def test_rates_are_kept_and_independent():
    settings = ViewSettings(
        flip_rate=0.3,
        jitter_rate=0.8,
        brightness=0.4,
        grey_rate=0.2,
        blur_rate=0.6,
        solarise_rate=0.1,
    )
    plan = plan_of(settings)
    events = {
        0.3: plan.mirrored,
        0.8: plan.brightness != 1,
        0.2: plan.saturation == 0,
        0.6: plan.sigma > 0,
        0.1: plan.solarised,
    }
    for rate, event in events.items():
        bound = 5 * math.sqrt(rate * (1 - rate) / N)
        assert abs(event.float().mean().item() - rate) < bound
    correlation = torch.corrcoef(torch.stack([event.float() for event in events.values()]))
    assert (correlation - torch.eye(5)).abs().max() < 5 / math.sqrt(N)


def test_strengths_are_ranges():
    settings = ViewSettings(
        jitter_rate=1,
        brightness=0.4,
        contrast=0.3,
        saturation=1.5,
        hue=0.1,
        blur_rate=1,
        blur_sigma=(0.5, 1.5),
    )
    plan = plan_of(settings)
    assert uniform_pvalue(plan.brightness, 0.6, 1.4) > 1e-3
    assert uniform_pvalue(plan.contrast, 0.7, 1.3) > 1e-3
    assert uniform_pvalue(plan.saturation, 0, 2.5) > 1e-3
    assert uniform_pvalue(plan.hue, -0.1, 0.1) > 1e-3
    assert uniform_pvalue(plan.sigma, 0.5, 1.5) > 1e-3


def test_how_much_does_not_depend_on_whether():
    settings = ViewSettings(jitter_rate=0.5, brightness=0.4, contrast=0.4, hue=0.2, blur_rate=0.5)
    plan = plan_of(settings)
    jittered = plan.hue != 0
    assert uniform_pvalue(plan.sigma[plan.sigma > 0], 0.1, 2) > 1e-3
    assert uniform_pvalue(plan.brightness[jittered], 0.6, 1.4) > 1e-3
    assert uniform_pvalue(plan.contrast[jittered], 0.6, 1.4) > 1e-3
    assert uniform_pvalue(plan.hue[jittered], -0.2, 0.2) > 1e-3
    factors = torch.stack([plan.brightness, plan.contrast, plan.hue])[:, jittered]
    assert (torch.corrcoef(factors) - torch.eye(3)).abs().max() < 5 / math.sqrt(N / 2)


def test_jitter_is_all_or_nothing():
    plan = plan_of(recipe("colour", grey_rate=0), n=1000)
    changed = torch.stack(
        [plan.brightness != 1, plan.contrast != 1, plan.saturation != 1, plan.hue != 0]
    )
    assert torch.equal(changed.all(0), changed.any(0))


def test_views_follow_each_other_stream_by_stream():
    draws, stretch = Draws(0, 0, torch.arange(10)), torch.linspace(0.5, 2, 10)
    both = drawn_plan(recipe("colour"), draws, streams=[5, 3], stretch=stretch)
    for first, stream in ((0, 5), (10, 3)):
        one = drawn_plan(recipe("colour"), draws, streams=[stream], stretch=stretch)
        assert torch.equal(both.boxes[first : first + 10], one.boxes)
        assert torch.equal(both.hue[first : first + 10], one.hue)
    assert not torch.equal(both.boxes[:10], both.boxes[10:])
