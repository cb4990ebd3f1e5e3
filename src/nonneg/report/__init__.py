"""Reports: the atlas of features, and figures for papers."""

from nonneg.report.assembly import atlas
from nonneg.report.atlas_data import Atlas, RunInfo, SelectionPoint, Training
from nonneg.report.figures import montage, save_figure, top_samples
from nonneg.report.samples import Samples
from nonneg.report.writing import WrittenAtlas, write_atlas

Story = RunInfo  # its name in version 0.1

__all__ = [
    "Atlas",
    "RunInfo",
    "Samples",
    "SelectionPoint",
    "Story",
    "Training",
    "WrittenAtlas",
    "atlas",
    "montage",
    "save_figure",
    "top_samples",
    "write_atlas",
]
