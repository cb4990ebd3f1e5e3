import io

import numpy as np
from PIL import Image

from nonneg.report import theory_figures as draw


def test_lines_show_the_mean_over_seeds():
    values = np.array([[0.0, 1.0], [1.0, 0.0]])
    figure = draw.anchor_figure(np.array([1.0, 0.5]), {"NCL": values}, {"NCL": values})
    assert len(figure.axes) == 2
    line = figure.axes[0].lines[0]
    np.testing.assert_allclose(line.get_ydata(), [0.5, 0.5])
    np.testing.assert_allclose(line.get_xdata(), [1.0, 0.5])
    assert figure.axes[0].xaxis_inverted()


def test_losses_are_drawn_above_their_minimum():
    losses = {"signed": np.array([[-3.0, -2.0], [-5.0, -5.0]])}
    consistency = np.ones((2, 2))
    figure = draw.rotation_figure(
        np.array([0.0, 90.0]), losses, consistency, lowest=np.array([-3.0, -5.0])
    )
    np.testing.assert_allclose(figure.axes[0].lines[0].get_ydata(), [0, 0.5])


def test_factors_share_one_colour_scale():
    factors = {"CL": np.array([[1.0, -4.0]]), "NCL": np.array([[2.0, 0.0]])}
    figure = draw.posterior_figure(np.ones((1, 1)), factors, {"CL": "cosine 0.5"})
    limits = [axis.images[0].get_clim() for axis in figure.axes[1:3]]
    assert limits == [(-4, 4), (-4, 4)]
    assert "cosine 0.5" in figure.axes[1].get_xlabel()


def test_growth_is_logarithmic_except_for_shares():
    panels = {"seconds": {"a": [0.1, 10.0]}, "cosine": {"a": [0.5, 1.0]}}
    figure = draw.growth_figure([10, 100], panels)
    assert [axis.get_yscale() for axis in figure.axes] == ["log", "linear"]


def test_a_small_png_is_a_picture_of_800_pixels():
    values = np.array([[0.3, 0.1]])
    figure = draw.width_figure([2, 3], {"cosine": values}, values, n_classes=3)
    content = draw.small_png(figure)
    assert Image.open(io.BytesIO(content)).size[0] == 800
    assert len(content) < 60_000
