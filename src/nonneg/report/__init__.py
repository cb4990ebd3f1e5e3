"""What people look at: figures and tables of features."""

from nonneg.report.montage import montage, save_figure, top_samples

__all__ = ["montage", "save_figure", "top_samples"]
