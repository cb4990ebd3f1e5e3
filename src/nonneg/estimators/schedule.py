"""How many steps, and how large? The budget of a fit and the course of its learning rate."""

from nonneg.training.optimizers import learning_rate_factor

_N_EPOCHS = 10
_MIN_STEPS, _MAX_STEPS = 300, 2000
_WARMUP_RATE = 0.1


def step_budget(
    n_samples: int, batch_size: int, *, max_epochs: int | None, max_steps: int | None
) -> int:
    """How many steps to take: ten passes over the samples, but from 300 to 2,000 steps.

    A limit that is given takes the place of this rule; of two limits the first that is reached.

    Example:
        >>> step_budget(15_000, 512, max_epochs=None, max_steps=None)
        300
        >>> step_budget(1_000_000, 512, max_epochs=None, max_steps=None)
        2000
        >>> step_budget(15_000, 512, max_epochs=2, max_steps=1_000)
        58
    """
    n_batches = max(1, n_samples // batch_size)
    if max_epochs is None and max_steps is None:
        return min(max(_MIN_STEPS, _N_EPOCHS * n_batches), _MAX_STEPS)
    limits = [max_steps, None if max_epochs is None else max_epochs * n_batches]
    return min(limit for limit in limits if limit is not None)


def rate_factor(step: int, n_steps: int) -> float:
    """The share of the peak learning rate: up over the first tenth, then half a cosine down.

    Example:
        >>> [round(rate_factor(step, 20), 3) for step in (0, 1, 2, 11, 19)]
        [0.5, 1.0, 1.0, 0.5, 0.008]
    """
    return learning_rate_factor(step, n_warmup=_WARMUP_RATE * n_steps, n_steps=n_steps)
