"""How much of the classes can a linear classifier read off? The linear probe."""

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

# Weight decay, from loose to tight, as a share of the loss per sample.
STRENGTHS = (1e-5, 1e-4, 1e-3, 1e-2, 1e-1)


@dataclass(frozen=True)
class ProbeResult:
    """The accuracy of a linear classifier and how it was chosen."""

    value: float
    """Share of test samples that it gets right."""
    strength: float
    """The weight decay that was best on the validation samples."""
    validation_accuracy: float
    n_train: int
    n_test: int

    def __float__(self) -> float:
        return self.value


def linear_probe(
    train: Tensor,
    train_labels: Tensor,
    test: Tensor,
    test_labels: Tensor,
    *,
    strengths: tuple[float, ...] = STRENGTHS,
    validation_rate: float = 0.2,
    seed: int = 0,
) -> ProbeResult:
    """Test accuracy of multinomial logistic regression with L2 regularisation.

    Columns are scaled to mean 0 and variance 1 by the training samples. The strength is chosen on
    a part of the training samples, then the classifier is fitted to all of them. Solved with all
    samples at once by L-BFGS, so that the result depends on no learning rate or batch order.

    Args:
        train: ``(n, d)``.
        train_labels: Class numbers ``(n,)``.
        test: ``(m, d)``, used once, at the very end.
        test_labels: ``(m,)``.
        strengths: Candidates for the weight decay.
        validation_rate: Share of the training samples on which the strength is chosen.
        seed: Of the draw of the validation samples.

    Example:
        >>> x = torch.tensor([[0.0], [0.1], [1.0], [1.1]] * 5)
        >>> y = torch.tensor([0, 0, 1, 1] * 5)
        >>> float(linear_probe(x, y, x, y))
        1.0
    """
    n_classes = int(train_labels.max()) + 1
    if len(train_labels.unique()) < 2:
        raise ValueError("the training labels hold one class only; a probe needs at least two")
    mean, std = train.mean(0), train.std(0)
    # A constant column (a dead feature) says nothing; dividing by its zero would say NaN.
    scale = torch.where(std > 0, std, 1.0)
    train, test = (train - mean) / scale, (test - mean) / scale
    order = torch.randperm(len(train), generator=torch.Generator().manual_seed(seed))
    n_validation = max(1, round(validation_rate * len(train)))
    chosen_on, fitted_on = order[:n_validation], order[n_validation:]
    best, best_accuracy = strengths[0], -1.0
    weight = train.new_zeros(n_classes, train.shape[1] + 1)
    # From tight to loose, each started at the last: neighbouring problems have near solutions.
    for strength in sorted(strengths, reverse=True):
        weight = _fit(train[fitted_on], train_labels[fitted_on], strength, weight)
        accuracy = _accuracy(weight, train[chosen_on], train_labels[chosen_on])
        if accuracy > best_accuracy:
            best, best_accuracy = strength, accuracy
    weight = _fit(train, train_labels, best, torch.zeros_like(weight))
    return ProbeResult(
        value=_accuracy(weight, test, test_labels),
        strength=best,
        validation_accuracy=best_accuracy,
        n_train=len(train),
        n_test=len(test),
    )


def _fit(inputs: Tensor, labels: Tensor, strength: float, start: Tensor) -> Tensor:
    """Weights ``(c, d + 1)``, the last column the bias, which is not decayed."""
    weight = start.clone().requires_grad_()
    solver = torch.optim.LBFGS(
        [weight], max_iter=100, history_size=10, tolerance_grad=1e-5, line_search_fn="strong_wolfe"
    )

    def closure() -> Tensor:
        solver.zero_grad()
        loss = F.cross_entropy(_logits(weight, inputs), labels)
        loss = loss + strength / 2 * weight[:, :-1].square().sum()
        loss.backward()
        return loss

    with torch.enable_grad():
        solver.step(closure)
    return weight.detach()


def _logits(weight: Tensor, inputs: Tensor) -> Tensor:
    return inputs @ weight[:, :-1].T + weight[:, -1]


def _accuracy(weight: Tensor, inputs: Tensor, labels: Tensor) -> float:
    return float((_logits(weight, inputs).argmax(1) == labels).float().mean())
