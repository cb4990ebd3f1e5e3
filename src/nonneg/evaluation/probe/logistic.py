"""Multinomial logistic regression, solved to convergence."""

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from nonneg.evaluation.probe.matrix import Rows

_MEMORY = 10
_MAX_STEPS = 500
_MAX_TRIALS = 20
# A step along a direction is long enough when the slope has fallen to this share.
_SLOPE_RATE = 0.3
# The curvature may change by this factor before the Hessian is factored anew.
_REFRESH = 2.0


@dataclass(frozen=True, eq=False)
class LogisticFit:
    """Weights of a linear classifier.

    Args:
        weight: ``(c, d)``.
        bias: ``(c,)``.
        n_steps: Passes over the samples that it took.
        converged: Whether the criterion was met; if not, rounding or the limit of steps ended it.
    """

    weight: Tensor
    bias: Tensor
    n_steps: int = 0
    converged: bool = False


def logistic_fit(
    rows: Rows,
    targets: Tensor,
    start: LogisticFit,
    *,
    penalty: float,
    gram: Tensor,
    tolerance: float = 0.01,
) -> LogisticFit:
    """The minimum of mean cross entropy + penalty / 2 · |weight|²; the bias is free.

    L-BFGS in coordinates in which the problem is well conditioned: the Hessian is about
    ``curvature · gram + penalty``, with the mean curvature of the softmax so far (Böhning
    1992 bounds it by 1/2; the mean is closer). Along a direction the logits change linearly, so
    the length of a step is found on them alone; each step reads the samples twice and no more.

    It ends when the gradient is at most ``tolerance · penalty · |weight|``, or within rounding of
    zero. The penalty makes the problem strongly convex in the weights, so their relative error is
    then at most about the tolerance.

    Args:
        rows: ``(n, d)``, standardised.
        targets: Class numbers 0 … c-1, ``(n,)``.
        start: Where to begin; the result does not depend on it beyond the tolerance.
        penalty: Of the weights, positive.
        gram: About the mean product of columns, float64 ``(d, d)``; it changes the number of
            steps, not the result.
        tolerance: Relative error of the weights.
    """
    parameters = torch.cat([start.weight, start.bias[:, None]], dim=1)  # (c, d + 1)
    logits = rows.logits(start.weight, start.bias)
    probability = logits.softmax(dim=1)
    memory = _Memory(_Preconditioner.at(_curvature(probability), gram, penalty, logits.dtype))
    gradient = _gradient(rows, targets, probability, parameters, penalty)
    solved = memory.preconditioner.solve(gradient)
    for n_steps in range(_MAX_STEPS):
        enough = tolerance * penalty * float(parameters[:, :-1].double().norm())
        if float(gradient.double().norm()) <= max(enough, torch.finfo(gradient.dtype).eps):
            return _result(parameters, n_steps, converged=True)
        curvature = _curvature(probability)
        if not 1 / _REFRESH <= curvature / memory.preconditioner.curvature <= _REFRESH:
            memory.change(_Preconditioner.at(curvature, gram, penalty, logits.dtype))
            solved = memory.preconditioner.solve(gradient)
        direction = -memory.solve(gradient, solved)
        slope = _dot(gradient, direction)
        if not slope < 0:
            break
        line = _Line(
            logits=logits,
            change=rows.logits(direction[:, :-1].contiguous(), direction[:, -1]),
            targets=targets,
            penalty_slope=penalty * _dot(parameters[:, :-1], direction[:, :-1]),
            penalty_curvature=penalty * _dot(direction[:, :-1], direction[:, :-1]),
        )
        length, logits, probability = line.search(slope)
        moved = parameters + length * direction
        if torch.equal(moved, parameters):
            break
        new = _gradient(rows, targets, probability, moved, penalty)
        solved_new = memory.preconditioner.solve(new)
        memory.add(moved - parameters, new - gradient, solved_new - solved)
        parameters, gradient, solved = moved, new, solved_new
    return _result(parameters, n_steps, converged=False)


def _result(parameters: Tensor, n_steps: int, *, converged: bool) -> LogisticFit:
    weight, bias = parameters[:, :-1].contiguous(), parameters[:, -1].clone()
    return LogisticFit(weight, bias, n_steps, converged)


def _gradient(
    rows: Rows, targets: Tensor, probability: Tensor, parameters: Tensor, penalty: float
) -> Tensor:
    """``(c, d + 1)``; the last column belongs to the bias."""
    residual = probability.clone()
    residual[torch.arange(len(targets), device=targets.device), targets] -= 1
    residual /= len(targets)
    of_weight = rows.gradient(residual).add_(parameters[:, :-1], alpha=penalty)
    return torch.cat([of_weight, residual.sum(dim=0)[:, None]], dim=1)


def _curvature(probability: Tensor) -> float:
    """The mean curvature of the softmax: 1/c for equal probabilities, near 0 for certain ones."""
    spread = 1 - probability.square().sum(dim=1).mean(dtype=torch.float64)
    return max(float(spread) / (probability.shape[1] - 1), 1e-6)


def _dot(a: Tensor, b: Tensor) -> float:
    return float((a.double() * b).sum())


@dataclass(frozen=True, eq=False)
class _Line:
    """The loss along a direction: logits + t · change, ``(n, c)`` both."""

    logits: Tensor
    change: Tensor
    targets: Tensor
    penalty_slope: float
    penalty_curvature: float

    def search(self, slope_at_zero: float) -> tuple[float, Tensor, Tensor]:
        """A length with a slope well below the first one's; the logits and probabilities there."""
        of_target = self.change.gather(1, self.targets[:, None]).sum(dtype=torch.float64)
        length, n = 1.0, len(self.targets)
        for _ in range(_MAX_TRIALS):
            logits = torch.add(self.logits, self.change, alpha=length)
            probability = logits.softmax(dim=1)
            weighted = probability * self.change
            mean = weighted.sum(dim=1)
            slope = float(mean.sum(dtype=torch.float64) - of_target) / n
            slope += self.penalty_slope + length * self.penalty_curvature
            if abs(slope) <= _SLOPE_RATE * abs(slope_at_zero):
                break
            square = weighted.mul_(self.change).sum(dtype=torch.float64)
            curvature = float(square - mean.double().square().sum()) / n + self.penalty_curvature
            # Newton's step in one dimension, held back because the curvature may change fast.
            length = min(max(length - slope / curvature, length / 10), 4 * length)
        return length, logits, probability


@dataclass(frozen=True, eq=False)
class _Preconditioner:
    """An approximate inverse Hessian, the same for every class."""

    factor: Tensor
    curvature: float

    @classmethod
    def at(
        cls, curvature: float, gram: Tensor, penalty: float, dtype: torch.dtype
    ) -> "_Preconditioner":
        # Most of a fit's time is reading the factor: half of the width is half of it.
        for kind in (dtype, torch.float64):
            factor, failed = _factored(gram.to(kind), curvature, penalty)
            if not failed:
                return cls(factor, curvature)
        ridge = penalty
        # A gram of float32 products has rounding of either sign where columns repeat others.
        while failed:
            ridge *= 10
            factor, failed = _factored(gram, curvature, ridge)
        return cls(factor, curvature)

    def solve(self, gradient: Tensor) -> Tensor:
        """Of gradients ``(c, d + 1)``, or of several beneath each other; float64."""
        kind = self.factor.dtype
        solved = torch.cholesky_solve(gradient[:, :-1].T.to(kind), self.factor).T.double()
        of_bias = gradient[:, -1:].double() / self.curvature
        return torch.cat([solved, of_bias], dim=1)


def _factored(gram: Tensor, curvature: float, ridge: float) -> tuple[Tensor, int]:
    """The triangle of ``curvature · gram + ridge``, and whether there is none."""
    matrix = curvature * gram
    matrix.diagonal().add_(ridge)
    factor, failed = torch.linalg.cholesky_ex(matrix)
    return factor, int(failed)


@dataclass(frozen=True, eq=False)
class _Pair:
    """A step, the change of the gradient along it, and that change as the preconditioner has it."""

    step: Tensor
    change: Tensor
    solved: Tensor
    product: float


class _Memory:
    """The last steps and changes of the gradient: L-BFGS's approximation of the Hessian.

    The preconditioner is linear: what it makes of the changes is known from what it made of the
    gradients, so that each step costs it one solution and no more.

    Args:
        preconditioner: Where the approximation starts.
    """

    def __init__(self, preconditioner: _Preconditioner) -> None:
        self.preconditioner = preconditioner
        self._pairs: list[_Pair] = []

    def change(self, preconditioner: _Preconditioner) -> None:
        """Take another preconditioner; steps and changes are kept."""
        self.preconditioner = preconditioner
        if self._pairs:
            changes = torch.cat([pair.change for pair in self._pairs])
            parts = preconditioner.solve(changes).chunk(len(self._pairs))
            self._pairs = [
                replace(pair, solved=part) for pair, part in zip(self._pairs, parts, strict=True)
            ]

    def add(self, step: Tensor, change: Tensor, solved: Tensor) -> None:
        """Note a step, and the change of the gradient and of what is solved of it."""
        product = _dot(step, change)
        # Rounding can turn it negative at the very end; such a pair would spoil the approximation.
        if product > 0:
            self._pairs = [*self._pairs, _Pair(step, change, solved, product)][-_MEMORY:]

    def solve(self, gradient: Tensor, solved: Tensor) -> Tensor:
        """The approximate inverse Hessian times a gradient.

        Args:
            gradient: ``(c, d + 1)``.
            solved: What the preconditioner makes of it.
        """
        shares = []
        for pair in reversed(self._pairs):
            shares.append(_dot(pair.step, gradient) / pair.product)
            gradient = gradient - shares[-1] * pair.change
            solved = solved - shares[-1] * pair.solved
        if self._pairs:
            last = self._pairs[-1]
            solved = solved * (last.product / _dot(last.solved, last.change))
        for pair, share in zip(self._pairs, reversed(shares), strict=True):
            solved = solved + (share - _dot(solved, pair.change) / pair.product) * pair.step
        return solved.to(gradient.dtype)
