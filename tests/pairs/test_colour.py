import torch

from nonneg.pairs.rendering import chroma_map, mean_grey

LUMINANCE = torch.tensor([0.299, 0.587, 0.114])


def chroma(saturation=1.0, hue=0.0):
    return chroma_map(torch.tensor([saturation]), torch.tensor([hue]))[0]


def assert_near(found, expected):
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-6)


def test_nothing_drawn_changes_no_colour():
    assert_near(chroma(), torch.eye(3))


def test_no_saturation_is_grey():
    assert_near(chroma(saturation=0.0, hue=0.3), LUMINANCE.expand(3, 3))


def test_greys_stay_and_luminance_is_kept():
    found = chroma(saturation=1.7, hue=0.13)
    assert_near(found @ torch.ones(3), torch.ones(3))
    assert_near(LUMINANCE @ found, LUMINANCE)


def test_a_third_of_a_turn_takes_red_to_green_to_blue():
    turn = chroma(hue=1 / 3)
    red, green, blue = (torch.eye(3) - LUMINANCE.expand(3, 3)).T
    assert_near(turn @ red, green)
    assert_near(turn @ green, blue)
    assert_near(turn @ blue, red)


def test_turns_add_up():
    first, second = (chroma(hue=hue) for hue in (0.11, 0.23))
    assert_near(first @ second, chroma(hue=0.34))


def test_mean_grey_is_the_mean_of_luminance():
    views = torch.rand(3, 2, 5, 4, generator=torch.Generator().manual_seed(0))
    expected = torch.einsum("cnhw,c->n", views, LUMINANCE) / 20
    assert_near(mean_grey(views), expected)
    assert_near(mean_grey(views[:1]), views[0].mean((1, 2)))
