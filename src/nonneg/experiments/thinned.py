"""Which encoder came out of a run? That of its folder, with all that is done to its features."""

from pathlib import Path

from torch import Tensor

from nonneg.encoder import CONFIG_FILE, Encoder
from nonneg.experiments.fitting import is_fitted
from nonneg.head.nonnegative import NonNegative
from nonneg.io import read_json


class Thinned(NonNegative):
    """The transform of a fitted estimator: then without what its threshold and limit drop.

    Args:
        kind: A key of ``TRANSFORMS``.
        threshold: Entries below this share of the length of their row become 0.
        max_active: The most entries of a row that stay, the largest; None for all.

    Example:
        >>> import torch
        >>> Thinned("relu", threshold=0.7, max_active=None)(torch.tensor([[3.0, 4.0, -5.0]]))
        tensor([[0., 4., 0.]])
    """

    def __init__(self, kind: str, *, threshold: float, max_active: int | None) -> None:
        super().__init__(kind)
        self.threshold, self.max_active = threshold, max_active

    def forward(self, scores: Tensor) -> Tensor:
        """Features of scores, both ``(n, d)``."""
        # Imported on use: scikit-learn comes with it.
        from nonneg.estimators.output import thinned

        features = super().forward(scores)
        return thinned(features, threshold=self.threshold, max_active=self.max_active)


def check_is_described(folder: str | Path) -> None:
    """Raise a sentence with what to do in Python, if an encoder stands on a module of one's own."""
    path = Path(folder) / CONFIG_FILE
    config = read_json(path) if path.is_file() else None
    settings = config.get("settings") if isinstance(config, dict) else None
    if isinstance(settings, dict) and settings.get("backbone", 0) is None:
        raise ValueError(
            f"the encoder in {folder} stands on a module of your own, which no command can build; "
            "in Python, nonneg.Encoder.load(folder, backbone=module).encode(samples) gives its "
            "features: measure them with nonneg.metrics or nonneg.evaluation, or write them with "
            "nonneg.data.write_features for nonneg report Z.npz"
        )


def run_encoder(folder: str | Path) -> Encoder:
    """The encoder of a run, in evaluation mode, on the CPU; its features are the run's own.

    For a fitted run they are those of ``NCL.transform``.
    """
    if not is_fitted(folder):
        check_is_described(folder)
        return Encoder.load(folder)
    from nonneg.estimators import NCL

    ncl = NCL.load(folder)
    encoder: Encoder = ncl.encoder_
    encoder.nonnegative = Thinned(
        encoder.settings.nonnegative, threshold=ncl.threshold_, max_active=ncl.max_active
    )
    return encoder.eval()
