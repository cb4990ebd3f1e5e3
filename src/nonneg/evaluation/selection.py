"""Feature selection: the best by expected activation, against random ones and all of them."""

import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from nonneg import metrics
from nonneg.evaluation.probe.linear import fitted_probe
from nonneg.evaluation.subject import Known, NotMeasurableError, ranked_values

RANKINGS = ("random", "ea_signed", "ea_rectified")


@dataclass(frozen=True)
class SelectionRow:
    """The figures of a selection of features.

    Args:
        size: What was asked for, a number or a share of the features alive; ``"all"`` for all.
        n_features: How many features that is.
        ranking: By what they were chosen; ``"all"`` for all.
        probe: Test accuracy of a linear classifier on them.
        retrieval: Precision at k among the test samples.
        transfer: Test accuracy of a linear classifier on another set, where one was given.
        probe_std: Spread over draws, for random ones; 0 otherwise.
        retrieval_std: The same.
        transfer_std: The same.
    """

    size: float | str
    n_features: int
    ranking: str
    probe: float
    retrieval: float
    transfer: float | None
    probe_std: float = 0.0
    retrieval_std: float = 0.0
    transfer_std: float | None = None


def selection_table(
    train: Known,
    test: Known,
    *,
    sizes: Sequence[float],
    k: int = 10,
    n_draws: int = 5,
    seed: int = 0,
    transfer: tuple[Known, Known] | None = None,
    watch: Callable[[str], None] = lambda _: None,
) -> list[SelectionRow]:
    """The rows *all / random / EA signed / EA rectified* of the paper's table of selection.

    Rankings are made on the training samples: EA on the scores before the transform (signed), or on
    what is left of them above zero (rectified): the features where these are non-negative, a gate
    included, and the positive part of the scores where they are signed. All choose among the
    features that are alive on the training samples; dead ones would only handicap the random
    choice. The penalty of a probe is chosen once, on all features.

    Args:
        train: Training samples: for ranking and for probes.
        test: Test samples.
        sizes: Numbers of features, or shares (below 1) of those alive.
        k: Neighbours in retrieval.
        n_draws: Random choices per size.
        seed: Of these draws.
        transfer: Train and test samples of another set.
        watch: Told what is being measured.
    """
    alive = torch.from_numpy(metrics.alive_features(train.encoded.features)).nonzero().flatten()
    if len(alive) < 2:
        raise NotMeasurableError(
            f"only {len(alive)} features are alive; there is nothing to select"
        )
    everything = torch.arange(train.encoded.features.shape[1])
    measure = _Measure(train, test, transfer, everything, k)
    rows = [_row("all", len(everything), "all", [measure(everything)])]
    for size in sizes:
        n = min(len(alive), size if isinstance(size, int) else max(1, round(size * len(alive))))
        for ranking in RANKINGS:
            watch(f"{n} features, {ranking}")
            chosen = _chosen(train, alive, n, ranking, n_draws=n_draws, seed=seed)
            rows.append(_row(size, n, ranking, [measure(columns) for columns in chosen]))
    return rows


class _Measure:
    """Probe, retrieval and transfer of some columns; the probes' penalty is chosen once."""

    def __init__(
        self,
        train: Known,
        test: Known,
        transfer: tuple[Known, Known] | None,
        everything: Tensor,
        k: int,
    ) -> None:
        self.sides = [(train, test)] if transfer is None else [(train, test), transfer]
        self.k = k
        self.penalties = [
            fitted_probe(train.encoded.features[:, everything], train.labels).penalty
            for train, _ in self.sides
        ]

    def __call__(self, columns: Tensor) -> tuple[float, float, float | None]:
        accuracies = [
            fitted_probe(
                train.encoded.features[:, columns], train.labels, penalties=(penalty,)
            ).accuracy(test.encoded.features[:, columns], test.labels)
            for (train, test), penalty in zip(self.sides, self.penalties, strict=True)
        ]
        test = self.sides[0][1]
        retrieval = metrics.precision_at_k(test.encoded.features[:, columns], test.labels, self.k)
        return accuracies[0], retrieval.value, accuracies[1] if len(accuracies) > 1 else None


def _chosen(
    train: Known, alive: Tensor, n: int, ranking: str, *, n_draws: int, seed: int
) -> list[Tensor]:
    """The columns of each draw; one draw for a ranking that is not random."""
    if ranking == "random":
        generator = torch.Generator().manual_seed(seed)
        orders = [torch.randperm(len(alive), generator=generator) for _ in range(n_draws)]
        return [alive[order[:n]].sort().values for order in orders]
    values = ranked_values(train.encoded, rectified=ranking == "ea_rectified")[:, alive]
    return [alive[torch.from_numpy(metrics.select(values, n, by=ranking))]]


def _row(
    size: float | str,
    n_features: int,
    ranking: str,
    measured: list[tuple[float, float, float | None]],
) -> SelectionRow:
    probes, retrievals, transfers = zip(*measured, strict=True)
    has_transfer = transfers[0] is not None
    return SelectionRow(
        size=size,
        n_features=n_features,
        ranking=ranking,
        probe=statistics.fmean(probes),
        retrieval=statistics.fmean(retrievals),
        transfer=statistics.fmean(transfers) if has_transfer else None,
        probe_std=_std(probes),
        retrieval_std=_std(retrievals),
        transfer_std=_std(transfers) if has_transfer else None,
    )


def _std(values: Sequence[float]) -> float:
    return statistics.stdev(values) if len(values) > 1 else 0.0
