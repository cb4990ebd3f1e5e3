import matplotlib.image
import pytest
import torch

from nonneg.report import montage, save_figure, top_samples


def test_top_samples_are_the_strongest_of_unit_rows():
    features = torch.tensor([[10.0, 10.0], [1.0, 0.0], [0.0, 0.1], [3.0, 4.0]])
    assert top_samples(features, 2).tolist() == [[1, 0], [2, 3]]


def test_signed_features_count_by_absolute_value_and_ties_by_number():
    features = torch.tensor([[1.0], [-2.0], [0.0], [3.0]])
    assert top_samples(features, 3).tolist() == [[0, 1, 3]]


@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize("ending", ["png", "svg"])
def test_a_montage_is_written_whole(tmp_path, channels, ending):
    generator = torch.Generator().manual_seed(0)
    images = torch.randint(0, 256, (30, channels, 8, 8), generator=generator).byte()
    columns = {name: torch.rand(30, 12, generator=generator) for name in ("CL", "NCL")}
    figure = montage(images, columns, n_features=3, n_top=4)
    assert [axis.get_title() for axis in figure.axes] == ["CL", "NCL"]
    path = tmp_path / f"features.{ending}"
    save_figure(figure, path)
    assert [p.name for p in tmp_path.iterdir()] == [path.name]
    if ending == "png":
        assert matplotlib.image.imread(path).std() > 0.1
