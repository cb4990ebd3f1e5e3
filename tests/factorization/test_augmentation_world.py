import numpy as np
import pytest
from scipy.sparse.csgraph import connected_components

from nonneg.data import load
from nonneg.factorization import (
    LatentWorld,
    augmentation_world,
    posterior_features,
    shifted_views,
)
from nonneg.factorization.population import factorization_error


def test_the_joint_is_the_mean_over_images_of_pairs_of_views():
    numbers = [[0, 1, 1], [1, 2, 3], [3, 3, 0]]
    expected = np.zeros((4, 4))
    for views in numbers:
        for a in views:
            for b in views:
                expected[a, b] += 1 / (3 * 9)
    world = augmentation_world(numbers)
    assert isinstance(world, LatentWorld)
    np.testing.assert_allclose(world.joint.toarray(), expected)


def test_the_posterior_of_the_images_factorises_the_views():
    world = augmentation_world([[0, 1, 2], [2, 3, 4], [4, 5, 0]])
    assert factorization_error(posterior_features(world), world) == pytest.approx(0, abs=1e-12)


def test_shifts_move_pixels_and_fill_with_zero():
    image = np.arange(9.0).reshape(1, 3, 3) / 8
    shifts = [(0, 0), (1, 0), (0, -1), (-2, 2), (3, 0)]
    views = shifted_views(image, shifts=shifts, pool=1, levels=9)
    pixels = image[0]
    for (down, right), number in zip(shifts, views.numbers[0], strict=True):
        for row in range(3):
            for column in range(3):
                source = (row - down, column - right)
                inside = min(source) >= 0 and max(source) < 3
                value = pixels[source] if inside else 0
                level = min(int(value * 9), 8) / 8
                assert views.images[number, row, column] == pytest.approx(level)


def test_equal_views_are_one_and_labels_are_shares():
    images = np.zeros((3, 2, 2))
    images[0, 0, 0] = images[1, 0, 1] = images[2, 1, 1] = 1
    views = shifted_views(images, shifts=[(0, 0), (0, 1)], pool=1)
    # Image 0 moved right is image 1; images 1 and 2 moved right are empty.
    assert views.numbers[0, 1] == views.numbers[1, 0]
    assert views.numbers[1, 1] == views.numbers[2, 1]
    assert len(views.images) == 4
    rates = views.label_rates([0, 1, 1])
    np.testing.assert_allclose(rates[views.numbers[1, 0]], [0.5, 0.5])
    np.testing.assert_allclose(rates[views.numbers[2, 0]], [0, 1])


def test_coarse_digits_share_views():
    digits = load("digits", split="test")
    pixels = digits.fetch(np.arange(len(digits)))[:, 0].numpy() / 255
    views = shifted_views(pixels)
    world = augmentation_world(views.numbers)
    assert world.joint.nnz < 0.1 * world.n_samples**2
    assert world.n_samples < 0.5 * views.numbers.size
    n_parts, _ = connected_components(world.joint)
    assert n_parts == 1
    fine = shifted_views(pixels, pool=1, levels=17)
    assert connected_components(augmentation_world(fine.numbers).joint)[0] > 350


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda: augmentation_world([0, 1]), r"^view_numbers must be whole numbers"),
        (lambda: augmentation_world([[0.5]]), r"^view_numbers must be whole numbers"),
        (lambda: augmentation_world([[-1]]), r"^view_numbers has the entry -1; numbers count"),
        (lambda: augmentation_world([[0, 2]]), r"^sample 1 has probability zero"),
        (lambda: shifted_views(np.zeros((2, 2))), r"^images must be \(n_images, height, width\)"),
        (lambda: shifted_views(np.full((1, 2, 2), 3)), r"^images has values from 3 to 3; scale"),
        (lambda: shifted_views(np.zeros((1, 3, 2))), r"^pool is 2; it must divide the height 3"),
        (lambda: shifted_views(np.zeros((1, 2, 2)), levels=1), r"^need at least 2 levels and 1"),
    ],
)
def test_bad_sets_are_one_sentence(make, sentence):
    with pytest.raises(ValueError, match=sentence):
        make()
