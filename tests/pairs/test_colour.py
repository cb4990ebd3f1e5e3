import dataclasses

import torch

from nonneg.pairs import Draws, ViewSettings
from nonneg.pairs.colour import adjust_light, chroma_map, mean_grey
from nonneg.pairs.plan import drawn_plan

LUMINANCE = torch.tensor([0.299, 0.587, 0.114])


def plan_with(**changes):
    plan = drawn_plan(ViewSettings(), Draws(0, 0, torch.arange(1)), stream=1)
    changes = {name: torch.tensor([value]) for name, value in changes.items()}
    return dataclasses.replace(plan, **changes)


def close(found, expected):
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-6)


def test_nothing_drawn_changes_no_colour():
    close(chroma_map(plan_with())[0], torch.eye(3))


def test_no_saturation_is_grey():
    close(chroma_map(plan_with(saturation=0.0, hue=0.3))[0], LUMINANCE.expand(3, 3))


def test_greys_stay_and_luminance_is_kept():
    found = chroma_map(plan_with(saturation=1.7, hue=0.13))[0]
    close(found @ torch.ones(3), torch.ones(3))
    close(LUMINANCE @ found, LUMINANCE)


def test_a_third_of_a_turn_takes_red_to_green_to_blue():
    turn = chroma_map(plan_with(hue=1 / 3))[0]
    chroma = torch.eye(3) - LUMINANCE.expand(3, 3)
    red, green, blue = chroma.T
    close(turn @ red, green)
    close(turn @ green, blue)
    close(turn @ blue, red)


def test_turns_add_up():
    first, second = (chroma_map(plan_with(hue=hue))[0] for hue in (0.11, 0.23))
    close(first @ second, chroma_map(plan_with(hue=0.34))[0])


def test_mean_grey_is_the_mean_of_luminance():
    views = torch.rand(2, 3, 5, 4, generator=torch.Generator().manual_seed(0))
    expected = torch.einsum("nchw,c->n", views, LUMINANCE) / 20
    close(mean_grey(views).flatten(), expected)
    close(mean_grey(views[:, :1]).flatten(), views[:, 0].mean((1, 2)))


def test_brightness_scales_and_contrast_pulls_to_the_mean():
    views = torch.tensor([0.2, 0.6]).view(1, 1, 1, 2)
    found = adjust_light(views.clone(), plan_with(brightness=0.5))
    close(found.flatten(), torch.tensor([0.1, 0.3]))
    found = adjust_light(views.clone(), plan_with(contrast=0.5))
    close(found.flatten(), torch.tensor([0.3, 0.5]))
    found = adjust_light(views.clone(), plan_with(brightness=0.5, contrast=0.0))
    close(found.flatten(), torch.tensor([0.2, 0.2]))
