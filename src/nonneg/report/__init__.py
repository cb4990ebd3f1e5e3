"""What people look at: the atlas, figures and tables of features."""

from nonneg.report.atlas import Atlas, SelectionPoint, Story, Training
from nonneg.report.figures import montage, save_figure, top_samples
from nonneg.report.samples import Samples
from nonneg.report.writing import WrittenAtlas, write_atlas

__all__ = [
    "Atlas",
    "Samples",
    "SelectionPoint",
    "Story",
    "Training",
    "WrittenAtlas",
    "montage",
    "save_figure",
    "top_samples",
    "write_atlas",
]
