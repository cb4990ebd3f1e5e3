"""How large is the step at each step? Linear warm-up, then half a cosine down to zero."""

import math


def learning_rate_factor(step: int, *, n_warmup: float, n_steps: int) -> float:
    """The share of the peak learning rate at a step, in [0, 1].

    Args:
        step: Counted from 0; the first step already moves.
        n_warmup: Steps of the warm-up.
        n_steps: Steps in all; from there on the share is 0.

    Example:
        >>> [learning_rate_factor(s, n_warmup=2, n_steps=6) for s in (0, 1, 2, 4, 6)]
        [0.5, 1.0, 1.0, 0.5, 0.0]
    """
    if step < n_warmup:
        return min(1.0, (step + 1) / n_warmup)
    progress = min(1.0, (step - n_warmup) / (n_steps - n_warmup))
    return 0.5 * (1 + math.cos(math.pi * progress))
