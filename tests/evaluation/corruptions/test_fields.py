import pytest
import torch

from nonneg.evaluation.corruptions.pixels import clouds, n_cloud_numbers, smooth_field

UNIFORM = torch.rand(50, 10_000, generator=torch.Generator().manual_seed(0))


def cloudy(size, n=50):
    return clouds(UNIFORM[:n, : n_cloud_numbers(size)], size)


def test_a_field_goes_through_its_numbers():
    values = torch.rand(2, 3, 4, 4)
    field = smooth_field(values, (10, 10))
    torch.testing.assert_close(field[:, :, ::3, ::3], values)


@pytest.mark.parametrize("size", [(8, 8), (32, 32), (28, 40), (224, 224)])
def test_clouds_span_0_to_1_and_are_smooth(size):
    field = cloudy(size, n=4)
    assert field.shape == (4, *size)
    torch.testing.assert_close(field.flatten(1).amin(1), torch.zeros(4))
    torch.testing.assert_close(field.flatten(1).amax(1), torch.ones(4))
    step = torch.diff(field, dim=2).abs().mean()
    shuffled = field.flatten(1)[:, torch.randperm(field[0].numel())].view_as(field)
    assert step < 0.5 * torch.diff(shuffled, dim=2).abs().mean()


def test_clouds_are_as_thick_in_every_part_of_the_image():
    # The mean over samples; corners, where few numbers meet, must not stand out.
    mean = cloudy((32, 32)).mean(0)
    assert (mean - mean.mean()).abs().max() < 0.25
    parts = mean.view(4, 8, 4, 8).mean((1, 3))
    assert (parts - parts.mean()).abs().max() < 0.12


def test_larger_images_have_finer_clouds():
    assert [n_cloud_numbers((side, side)) for side in (8, 16, 32)] == [34, 115, 404]


def test_equal_numbers_give_no_clouds():
    field = clouds(torch.full((1, n_cloud_numbers((8, 8))), 0.3), (8, 8))
    assert torch.isfinite(field).all()
