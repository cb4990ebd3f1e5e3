import numpy as np
import pytest

from nonneg.metrics.figures import Figure
from nonneg.report import Atlas, RunInfo, Samples, SelectionPoint
from nonneg.report.figures import (
    correlation_matrices,
    paper_figures,
    property_bars,
    seed_dots,
    selection_curve,
    sepin_curve,
    write_figures,
)


def test_bars_are_the_values_and_lines_the_chance():
    methods = {
        "CL": {"sparsity": Figure(0.0), "class_consistency": Figure(0.1)},
        "NCL": {
            "sparsity": Figure(0.98),
            "class_consistency": Figure(0.6, beside={"null": 0.2, "low": 0.5, "high": 0.7}),
        },
    }
    figure = property_bars(methods)
    consistency, sparsity = figure.axes
    assert [bar.get_height() for bar in sparsity.patches] == [0.0, 0.98]
    assert [bar.get_height() for bar in consistency.patches] == [0.1, 0.6]
    heights = [line.get_segments()[0][0][1] for line in consistency.collections]
    assert 0.2 in [pytest.approx(height) for height in heights]


def test_dots_are_the_seeds_and_bars_their_means():
    panels = {
        "purity": {"CL": [0.2, 0.4], "NCL": [0.7, 0.8]},
        "SEPIN@1": {"NCL": [0.1]},
    }
    figure = seed_dots(panels, nonnegative={"NCL"})
    purity, sepin = figure.axes
    assert [axis.get_title() for axis in figure.axes] == list(panels)
    assert [label.get_text() for label in purity.get_yticklabels()] == ["CL", "NCL"]
    drawn = [line.get_xydata().tolist() for line in purity.lines]
    assert drawn[0] == [[0.2, 0], [0.4, 0]]
    assert [x for x, _ in drawn[1]] == pytest.approx([0.3, 0.3])
    assert drawn[2] == [[0.7, 1], [0.8, 1]]
    # A figure that CL lacks leaves its row empty; NCL keeps row and colour.
    assert sepin.lines[0].get_xydata().tolist() == [[0.1, 1]]
    assert sepin.lines[0].get_color() == purity.lines[2].get_color()
    assert purity.lines[0].get_color() != purity.lines[2].get_color()


def test_class_consistency_says_of_which_features_it_is():
    both = {"class_consistency": Figure(0.8), "class_consistency_min20": Figure(0.6)}
    titles = [axis.get_title() for axis in property_bars({"NCL": both}).axes]
    assert titles == [
        "consistency of\nfrequent features\n(≥ 20 active)",
        "class consistency\n(all alive)",
    ]


def test_a_property_that_one_method_lacks_is_said():
    figure = property_bars({"CL": {}, "NCL": {"correlation": Figure(0.1)}})
    assert "not measured" in [text.get_text() for text in figure.axes[0].texts]


def test_the_selection_curve_ends_at_all_features():
    points = [
        SelectionPoint("probe", "random", 64, 0.5, 0.02),
        SelectionPoint("probe", "ea_rectified", 64, 0.7),
        SelectionPoint("probe", "all", 256, 0.8),
        SelectionPoint("retrieval", "ea_rectified", 64, 0.6),
    ]
    probe, retrieval = selection_curve(points).axes
    assert probe.get_legend_handles_labels()[1] == ["expected activation", "random"]
    np.testing.assert_allclose(probe.lines[0].get_xydata(), [[64, 0.7], [256, 0.8]])
    assert retrieval.get_title() == "precision at 10"


def test_matrices_share_one_scale():
    figure = correlation_matrices({"CL": np.full((3, 3), 0.4), "NCL": np.eye(2)})
    assert [axis.images[0].get_clim() for axis in figure.axes[:2]] == [(0, 1), (0, 1)]


def test_the_curve_of_sepin_is_the_mean_of_the_largest():
    figure = sepin_curve({"NCL": np.array([1.0, 5.0, 3.0])})
    np.testing.assert_allclose(figure.axes[0].lines[0].get_ydata(), [5, 4, 3])


def test_all_figures_are_written_as_png_and_svg(world, tmp_path):
    atlas = Atlas(
        samples=Samples(features=world.features, labels=world.labels, images=world.images[:, 0]),
        method="NCL",
        against=world.signed,
        against_method="CL",
        sepin=np.zeros(44),
        against_sepin=np.ones(30),
        run_info=RunInfo(selection=[SelectionPoint("probe", "random", 4, 0.5, 0.1)]),
    )
    written = write_figures(tmp_path / "figures", atlas)
    names = sorted(path.name for path in (tmp_path / "figures").iterdir())
    assert names == sorted(path.name for path in written)
    assert {name.split(".")[0] for name in names} == {
        "correlation",
        "montage",
        "properties",
        "selection",
        "sepin",
    }
    figures = paper_figures(atlas)
    assert [axis.get_title() for axis in figures["montage"].axes] == ["CL", "NCL"]
    assert figures["sepin"].axes[0].get_legend_handles_labels()[1] == ["CL", "NCL"]


def test_without_images_or_labels_there_are_fewer(tmp_path):
    figures = paper_figures(Atlas(samples=Samples(features=np.eye(5))))
    assert sorted(figures) == ["correlation", "properties"]
