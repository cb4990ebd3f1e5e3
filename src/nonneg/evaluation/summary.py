"""What is to be said of an encoder in a few lines? Readable, sparse, alive, and still accurate."""

from dataclasses import dataclass

from nonneg import metrics
from nonneg.data import Data
from nonneg.encoder import Encoder
from nonneg.evaluation.neighbours import knn_accuracy
from nonneg.evaluation.probe import linear_probe

# A purity is only taken of features with at least this many active samples.
MIN_ACTIVE = 20


@dataclass(frozen=True)
class Summary:
    """Headline figures, each beside what it must be read against."""

    sparsity: float
    """Share of entries that are zero."""
    alive_features: int
    n_features: int
    consistency: float
    """Class consistency of features with at least ``MIN_ACTIVE`` active samples."""
    consistency_null: float
    """The same with permuted labels."""
    n_measured: int
    """How many features that is."""
    top_purity: float
    """Share of the commonest class among the ``MIN_ACTIVE`` strongest samples of a feature."""
    top_purity_null: float
    knn_accuracy: float
    """Of the features."""
    probe_accuracy: float
    """Of a linear classifier on the hidden layer."""


def summary(encoder: Encoder, train: Data, test: Data) -> Summary:
    """Headline figures of an encoder on labelled data.

    Args:
        encoder: Measured in evaluation mode; left as it was.
        train: Labelled samples for the probe and the neighbours.
        test: Labelled samples that every figure is about.
    """
    if train.labels is None or test.labels is None:
        raise ValueError(f"{test.name} has no labels; a summary needs them for train and test")
    seen, new = encoder.encode(train), encoder.encode(test)
    sparsity = metrics.sparsity(new.features)
    consistency = metrics.class_consistency(
        new.features, test.labels, min_active=MIN_ACTIVE, n_permutations=20, random_state=0
    )
    purity = metrics.top_purity(
        new.features, test.labels, m=MIN_ACTIVE, n_permutations=20, random_state=0
    )
    assert consistency.null is not None
    assert purity.null is not None
    probe = linear_probe(seen.hidden, train.labels, new.hidden, test.labels)
    return Summary(
        sparsity=sparsity.value,
        alive_features=sparsity.n_alive,
        n_features=encoder.n_features,
        consistency=consistency.value,
        consistency_null=consistency.null,
        n_measured=consistency.averaged_over,
        top_purity=purity.value,
        top_purity_null=purity.null,
        knn_accuracy=knn_accuracy(seen.features, train.labels, new.features, test.labels),
        probe_accuracy=probe.value,
    )
