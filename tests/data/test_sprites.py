import itertools
import math

import pytest
import torch

from nonneg.data import SpriteArray, Sprites, load, sprite_factors, sprite_numbers

SIZES = (3, 6, 40, 32, 32)
AREAS = {0: 22.0**2, 1: math.pi * 15.5 * 7.75, 2: 17.0**2 * (1 + math.pi / 4)}


def draw(*factors):
    """The images of rows of factors, float (n, 64, 64) in [0, 1]."""
    numbers = sprite_numbers(torch.tensor(factors))
    return Sprites(numbers).fetch(torch.arange(len(numbers)))[:, 0] / 255


def centroid(image):
    """Mean column and row of the white, in pixels, counted from the middle of the first."""
    places = torch.arange(64.0)
    total = image.sum()
    return float((image.sum(0) * places).sum() / total), float(
        (image.sum(1) * places).sum() / total
    )


def test_numbers_and_factors_are_each_others_inverse_for_all():
    numbers = torch.arange(737_280)
    factors = sprite_factors(numbers)
    assert torch.equal(sprite_numbers(factors), numbers)
    assert factors.dtype == torch.int64
    assert factors.amin(0).tolist() == [0] * 5
    assert factors.amax(0).tolist() == [size - 1 for size in SIZES]


def test_the_order_is_that_of_nested_loops():
    loops = itertools.product(*(range(size) for size in SIZES))
    for number, factors in enumerate(itertools.islice(loops, 50_000)):
        if number % 997 == 0:
            assert sprite_factors(torch.tensor([number])).tolist() == [list(factors)]


@pytest.mark.parametrize("shape", [0, 1, 2])
def test_area_is_the_closed_form_times_scale_squared(shape):
    factors = [(shape, scale, turn, 3, 20) for scale in range(6) for turn in (0, 3, 7, 25)]
    for (_, scale, *_), image in zip(factors, draw(*factors), strict=True):
        expected = AREAS[shape] * (0.5 + 0.1 * scale) ** 2
        assert float(image.sum()) == pytest.approx(expected, rel=0.015)


@pytest.mark.parametrize("shape", [0, 1, 2])
def test_the_centre_of_mass_is_where_position_says_at_every_turn_and_scale(shape):
    factors = [
        (shape, scale, turn, x, y)
        for scale in (0, 5)
        for turn in (0, 1, 13, 38)
        for x, y in ((0, 0), (31, 0), (7, 22), (31, 31))
    ]
    for (*_, x, y), image in zip(factors, draw(*factors), strict=True):
        assert centroid(image) == pytest.approx((16 + x, 16 + y), abs=0.03)


def test_no_sprite_is_cut_off_by_the_border():
    for x, y in ((0, 0), (31, 31), (0, 31)):
        everything = [(s, 5, turn, x, y) for s in range(3) for turn in range(40)]
        centre = [(s, 5, turn, 16, 16) for s in range(3) for turn in range(40)]
        for moved, middle in zip(draw(*everything), draw(*centre), strict=True):
            assert torch.equal(moved[moved > 0], middle[middle > 0])


def test_shapes_that_look_the_same_after_a_turn_are_the_same():
    for scale, turn in itertools.product(range(6), range(10)):
        square = draw(*[(0, scale, turn + 10 * k, 5, 6) for k in range(4)])
        assert (square == square[0]).all()
        ellipse = draw(*[(1, scale, turn + 20 * k, 5, 6) for k in range(2)])
        assert (ellipse == ellipse[0]).all()


def test_otherwise_all_images_differ():
    factors = [
        (shape, scale, turn, 9, 11)
        for shape in range(3)
        for scale in range(6)
        for turn in range((10, 20, 40)[shape])
    ]
    images = draw(*factors)
    assert len(torch.unique(images.flatten(1), dim=0)) == 6 * (10 + 20 + 40)
    distances = torch.cdist(images.flatten(1), images.flatten(1), p=1)
    distances.fill_diagonal_(torch.inf)
    assert distances.min() > 5  # in white pixels


@pytest.mark.parametrize("shape", [0, 1, 2])
def test_ten_steps_of_orientation_are_a_quarter_turn_counter_clockwise(shape):
    # Position 15.5 would be the middle of the image; a patch of 33 pixels about the centre turns.
    for turn in (0, 1, 4, 27):
        before, after = draw((shape, 4, turn, 16, 16), (shape, 4, (turn + 10) % 40, 16, 16))
        middle = slice(16, 49)
        turned = torch.rot90(before[middle, middle])
        assert (turned - after[middle, middle]).abs().max() < 0.06


def test_a_heart_stands_on_its_tip_and_is_as_wide_left_as_right():
    (heart,) = draw((2, 5, 0, 16, 16))
    assert (heart - heart.flip(1).roll(1, dims=1)).abs().max() < 0.02  # about column 32
    widths = heart.sum(1)
    rows = widths.nonzero().flatten()
    n_parts = (heart > 0).int().diff(dim=1).clamp_min(0).sum(1)  # a part begins where ink does
    assert n_parts[rows[:2]].tolist() == [2, 2]  # the two lobes
    assert n_parts[rows[3:]].tolist() == [1] * (len(rows) - 3)
    assert widths.argmax() < 32  # widest above the middle, and narrower in steps down to the tip
    assert (widths[32 : rows[-1] + 1].diff() < 0).all()
    assert widths[rows[-1]] < 2


def test_pixels_are_the_covered_shares_of_a_slow_oracle():
    # An ellipse as the points whose distances to two foci add up to its length; a square by its
    # four half planes; both turned by 63 degrees, looked at in 20 x 20 places a pixel.
    angle = math.radians(63)
    images = draw((0, 3, 7, 4, 9), (1, 3, 7, 4, 9))
    long, short = 0.8 * 15.5, 0.8 * 7.75
    focus = math.sqrt(long**2 - short**2)
    foci = [(s * focus * math.cos(angle), s * focus * math.sin(angle)) for s in (-1, 1)]
    normals = [
        (math.cos(angle + q * math.pi / 2), math.sin(angle + q * math.pi / 2)) for q in range(4)
    ]
    for column, row in ((20, 25), (20, 17), (25, 20), (15, 30), (23, 16), (12, 29), (28, 21)):
        n_square = n_ellipse = 0
        for i, j in itertools.product(range(20), repeat=2):
            x = column + (i + 0.5) / 20 - (16.5 + 4)
            y = (16.5 + 9) - row - (j + 0.5) / 20
            n_square += all(a * x + b * y < 0.8 * 11 for a, b in normals)
            n_ellipse += sum(math.dist((x, y), f) for f in foci) < 2 * long
        assert float(images[0, row, column]) == pytest.approx(n_square / 400, abs=0.05)
        assert float(images[1, row, column]) == pytest.approx(n_ellipse / 400, abs=0.05)


def test_edges_are_smooth():
    grey = draw((2, 3, 5, 1, 1))[0]
    assert ((grey > 0.1) & (grey < 0.9)).sum() > 20


def test_any_subset_in_any_order_gives_the_same_images():
    numbers = torch.tensor([737_279, 5, 400_000, 5])
    some = Sprites(numbers)
    assert len(some) == 4
    assert some.fetch(torch.arange(4)).dtype == torch.uint8
    assert torch.equal(some.fetch(torch.tensor([2, 0])), Sprites().fetch(numbers[[2, 0]]))
    assert torch.equal(
        some.take(torch.tensor([2])).fetch(torch.tensor([0])), some.fetch(torch.tensor([2]))
    )


@pytest.mark.parametrize(
    ("label", "column", "n", "first", "last"),
    [
        ("shape", 0, 3, "square", "heart"),
        ("scale", 1, 6, "0.5", "1.0"),
        ("orientation", 2, 40, "0°", "351°"),
        ("posX", 3, 32, "0", "31"),
        ("posY", 4, 32, "0", "31"),
    ],
)
def test_each_factor_can_be_the_label(label, column, n, first, last):
    data = Sprites(torch.arange(0, 737_280, 1009), label=label)
    assert torch.equal(data.labels, data.factors[:, column])
    assert (len(data.class_names), data.class_names[0], data.class_names[-1]) == (n, first, last)
    assert data.factor_names[column] == label
    assert data.factor_sizes[column] == n


def test_cached_is_equal_and_keeps_the_factors(monkeypatch):
    monkeypatch.setattr("nonneg.data.sprites._DRAWN_AT_ONCE", 3)
    lazy = Sprites(torch.arange(0, 737_280, 70_001), label="scale")
    ready = lazy.cached()
    assert isinstance(ready, SpriteArray)
    assert torch.equal(ready.inputs, lazy.fetch(torch.arange(len(lazy))))
    assert torch.equal(ready.factors, lazy.factors)
    assert torch.equal(ready.labels, lazy.labels)
    assert (ready.name, ready.class_names) == (lazy.name, lazy.class_names)
    assert (ready.factor_names, ready.factor_sizes) == (lazy.factor_names, lazy.factor_sizes)


def test_the_named_splits_are_fixed_disjoint_and_balanced():
    train, test = load("sprites"), load("sprites", split="test")
    assert (len(train), len(test)) == (20_000, 5_000)
    train_numbers, test_numbers = sprite_numbers(train.factors), sprite_numbers(test.factors)
    assert len(torch.cat([train_numbers, test_numbers]).unique()) == 25_000
    share = train.labels.bincount() / 20_000
    assert (share - 1 / 3).abs().max() < 0.015
    assert (
        train.factors.double().mean(0) - torch.tensor([1, 2.5, 19.5, 15.5, 15.5])
    ).abs().max() < 0.4
    assert torch.equal(
        train.fetch(torch.tensor([7])), Sprites(train_numbers).fetch(torch.tensor([7]))
    )


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (
            lambda: Sprites(label="colour"),
            "unknown factor 'colour'; known: shape, scale, orientation, posX, posY",
        ),
        (
            lambda: Sprites(torch.tensor([0, 737_280])),
            "sprite numbers go from 0 to 737279, got 0 to 737280",
        ),
        (lambda: Sprites(torch.tensor([-1])), "sprite numbers go from 0 to 737279, got -1 to -1"),
        (
            lambda: Sprites(torch.tensor([1.0])),
            "sprite numbers must be int64 (n,), got torch.float32 (1,)",
        ),
        (
            lambda: sprite_numbers(torch.tensor([[0, 6, 0, 0, 0]])),
            "sprite factors must be (n, 5) and lie below (3, 6, 40, 32, 32)",
        ),
        (lambda: load("sprites", split="all"), "unknown split 'all'; known: train, test"),
    ],
)
def test_mistakes_have_one_sentence(make, sentence):
    with pytest.raises(ValueError, match=r".") as caught:
        make()
    assert str(caught.value) == sentence
