"""What is to be said of an encoder in a few lines? Readable, sparse, alive, and still accurate."""

from dataclasses import dataclass

from nonneg import metrics
from nonneg.data import Data
from nonneg.encoder import Encoder
from nonneg.evaluation.neighbours import knn_accuracy
from nonneg.evaluation.probe import linear_probe
from nonneg.metrics.consistency import ClassConsistency
from nonneg.metrics.purity import TopPurity

# A purity is only taken of features with at least this many active samples.
MIN_ACTIVE = 20
_N_VOTERS = 20


@dataclass(frozen=True)
class Summary:
    """Headline figures, each beside what it must be read against.

    Consistency, purity and their nulls are NaN where there are no more than ``MIN_ACTIVE`` test
    samples.
    """

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
    """Of the features, with 20 voters; with all training samples if these are fewer."""
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
    frequent = top = None
    if len(test) > MIN_ACTIVE:  # the strongest of all samples are all samples
        chance = {"n_permutations": 20, "random_state": 0}
        frequent = metrics.class_consistency(
            new.features, test.labels, min_active=MIN_ACTIVE, **chance
        )
        top = metrics.top_purity(new.features, test.labels, m=MIN_ACTIVE, **chance)
    consistency, consistency_null = _beside_chance(frequent)
    top_purity, top_purity_null = _beside_chance(top)
    k = min(_N_VOTERS, len(train))
    probe = linear_probe(seen.hidden, train.labels, new.hidden, test.labels)
    return Summary(
        sparsity=sparsity.value,
        alive_features=sparsity.n_alive,
        n_features=encoder.n_features,
        consistency=consistency,
        consistency_null=consistency_null,
        n_measured=0 if frequent is None else frequent.averaged_over,
        top_purity=top_purity,
        top_purity_null=top_purity_null,
        knn_accuracy=knn_accuracy(seen.features, train.labels, new.features, test.labels, k=k),
        probe_accuracy=probe.value,
    )


def _beside_chance(found: ClassConsistency | TopPurity | None) -> tuple[float, float]:
    """A value and its null; NaN where nothing was measured."""
    if found is None:
        return float("nan"), float("nan")
    assert found.null is not None
    return found.value, found.null
