"""Robustness: the accuracy on corrupted images of a probe that saw only clean ones."""

import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from nonneg.data.dataset import Data
from nonneg.encoder import Encoder
from nonneg.evaluation.corruptions.corrupted import AVERAGED, CORRUPTIONS, DRAWINGS, Corrupted
from nonneg.evaluation.probe.linear import LinearProbe
from nonneg.evaluation.subject import encoded_together


@dataclass(frozen=True)
class Robustness:
    """Accuracies of one probe.

    Args:
        clean: On the samples as they are.
        corrupted: By corruption, then by severity.
        drawn: On the sketch and the stylised version.
        n_samples: The same samples in every version.
    """

    clean: float
    corrupted: dict[str, dict[int, float]]
    drawn: dict[str, float]
    n_samples: int

    @property
    def by_corruption(self) -> dict[str, float]:
        """The mean over severities."""
        return {name: statistics.fmean(row.values()) for name, row in self.corrupted.items()}

    @property
    def corruption(self) -> float:
        """The mean over severities and the corruptions of ``AVERAGED``, whatever others exist."""
        found = self.by_corruption
        return statistics.fmean(found[name] for name in AVERAGED)


def robustness(
    encoder: Encoder,
    probe: LinearProbe,
    test: Data,
    *,
    severities: Sequence[int] = (1, 2, 3, 4, 5),
    seed: int = 0,
    watch: Callable[[str], None] = lambda _: None,
) -> Robustness:
    """The accuracy of a probe on the hidden layer of corrupted images.

    Args:
        encoder: Measured in evaluation mode; left as it was.
        probe: Fitted to the hidden layer of clean training images.
        test: Labelled images.
        severities: From 1 to 5.
        seed: Of the corruptions.
        watch: Told what is being measured.
    """
    labels = test.labels
    if labels is None:
        raise ValueError(f"{test.name} has no labels; robustness is the accuracy of a probe")

    def accuracy(version: Data) -> float:
        watch(version.name)
        return probe.accuracy(encoded_together(encoder, version).hidden, labels)

    return Robustness(
        clean=accuracy(test),
        corrupted={
            name: {
                severity: accuracy(Corrupted(test, name, severity=severity, seed=seed))
                for severity in severities
            }
            for name in CORRUPTIONS
        },
        drawn={name: accuracy(Corrupted(test, name, seed=seed)) for name in DRAWINGS},
        n_samples=len(test),
    )
