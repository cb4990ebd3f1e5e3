"""The objectives over pairs: one function for each name that ``loss.name`` may have."""

from collections.abc import Callable

from torch import Tensor

from nonneg.losses.distributed import gathered, info_nce_across, spectral_contrastive_across
from nonneg.losses.info_nce import decoupled_contrastive
from nonneg.losses.redundancy import barlow_twins, vicreg
from nonneg.losses.sigmoid import pairwise_sigmoid
from nonneg.losses.soft_targets import cosine_weights, soft_info_nce
from nonneg.training.settings import LossSettings

Objective = Callable[[Tensor, Tensor, Tensor | None], Tensor]
"""From both views ``(n, d)`` of this process's samples, and what else it learns from, to the loss
of the whole batch: labels ``(n,)``, or the teacher's vectors of both views ``(2n, h)``."""

# Any number of features has the products that so many would have. Lengths are learnt, but from
# products near 1: a thousand features at their usual size give products near 100, whose squares
# drive all features of a rectified encoder to zero, for good.
_SPECTRAL_FEATURES = 16


def objective(settings: LossSettings) -> Objective:
    """The loss of a batch of pairs.

    Over several processes each loss is that of the whole batch, value and gradient.
    """
    return _OBJECTIVES[settings.name](settings)


def _info_nce(settings: LossSettings) -> Objective:
    return lambda a, b, _: info_nce_across(a, b, temperature=settings.temperature)


def _soft_info_nce(settings: LossSettings) -> Objective:
    def loss(a: Tensor, b: Tensor, teacher: Tensor | None) -> Tensor:
        assert teacher is not None
        a, b, of_a, of_b = (gathered(rows).flatten(0, 1) for rows in (a, b, *teacher.chunk(2)))
        return soft_info_nce(
            a,
            b,
            weights=cosine_weights(of_a, of_b, temperature=settings.teacher_temperature),
            temperature=settings.temperature,
            partner_rate=settings.partner_rate,
        )

    return loss


def _supervised_contrastive(settings: LossSettings) -> Objective:
    return lambda a, b, labels: info_nce_across(
        a, b, temperature=settings.temperature, groups=labels, same_group="positive"
    )


def _spectral(settings: LossSettings) -> Objective:
    def loss(a: Tensor, b: Tensor, _: Tensor | None) -> Tensor:
        scale = (_SPECTRAL_FEATURES / a.shape[1]) ** 0.5
        return spectral_contrastive_across(a * scale, b * scale)

    return loss


def _decoupled(settings: LossSettings) -> Objective:
    def loss(a: Tensor, b: Tensor) -> Tensor:
        return decoupled_contrastive(a, b, temperature=settings.temperature)

    return _of_whole_batch(loss)


def _sigmoid(settings: LossSettings) -> Objective:
    def loss(a: Tensor, b: Tensor) -> Tensor:
        return pairwise_sigmoid(a, b, temperature=settings.temperature)

    return _of_whole_batch(loss)


def _of_whole_batch(loss: Callable[[Tensor, Tensor], Tensor]) -> Objective:
    """Every process computes the loss of all rows: exact, and more work than is needed."""
    return lambda a, b, _: loss(gathered(a).flatten(0, 1), gathered(b).flatten(0, 1))


_OBJECTIVES: dict[str, Callable[[LossSettings], Objective]] = {
    "info_nce": _info_nce,
    "soft_info_nce": _soft_info_nce,
    "supervised_contrastive": _supervised_contrastive,
    "spectral": _spectral,
    "decoupled": _decoupled,
    "sigmoid": _sigmoid,
    "vicreg": lambda _: _of_whole_batch(vicreg),
    "barlow_twins": lambda _: _of_whole_batch(barlow_twins),
}
# Learnt from pairs of views; the queue has a task of its own.
PAIR_LOSSES = (*_OBJECTIVES, "queue")
