"""Non-negative cross entropy: the formula, its limits, and that it trains from the first step."""

import itertools
import math

import pytest
import torch
import torch.nn.functional as F

from nonneg.losses import NonNegativeClassifier, non_negative_cross_entropy


def oracle(features, weight, target):
    """By loops and math.exp."""
    total = 0.0
    for row, label in zip(features.tolist(), target.tolist(), strict=True):
        logits = [
            sum(max(f, 0) * max(w, 0) for f, w in zip(row, column, strict=True))
            for column in weight.tolist()
        ]
        total -= logits[label] - math.log(sum(math.exp(logit) for logit in logits))
    return total / len(target)


@pytest.mark.parametrize("seed", range(5))
def test_agrees_with_loops(seed):
    generator = torch.Generator().manual_seed(seed)
    features = torch.randn(7, 4, generator=generator, dtype=torch.float64)
    weight = torch.randn(3, 4, generator=generator, dtype=torch.float64)
    target = torch.randint(3, (7,), generator=generator)
    found = float(non_negative_cross_entropy(features, weight, target))
    assert found == pytest.approx(oracle(features, weight, target), rel=1e-12)


def test_the_module_is_the_function():
    features, target = torch.randn(6, 5), torch.arange(6) % 3
    head = NonNegativeClassifier(5, 3, scale=1.0)
    with torch.no_grad():
        head.weight.normal_(generator=torch.Generator().manual_seed(0))
    expected = non_negative_cross_entropy(features, head.weight, target)
    assert torch.equal(F.cross_entropy(head(features), target), expected)


def test_features_that_say_nothing_leave_all_classes_equal():
    silent = -torch.rand(4, 5)
    loss = non_negative_cross_entropy(silent, torch.randn(7, 5), torch.tensor([0, 1, 2, 6]))
    assert float(loss) == pytest.approx(math.log(7))


def test_a_weight_can_only_speak_for_its_class():
    """Raising a feature never lowers the logit of any class."""
    head = NonNegativeClassifier(5, 3)
    with torch.no_grad():
        head.weight.normal_(generator=torch.Generator().manual_seed(0))
    features = torch.randn(6, 5)
    raised = features.clone()
    raised[:, 2] += 1.0
    assert bool((head(raised) >= head(features)).all())


def test_logits_start_equal_and_every_weight_can_move():
    head = NonNegativeClassifier(5, 4)
    features = torch.rand(8, 5) + 0.1
    logits = head(features)
    assert torch.allclose(logits, logits[:, :1].expand_as(logits))
    F.cross_entropy(logits, torch.arange(8) % 4).backward()
    assert bool((head.weight.grad != 0).all())


def test_transforms_are_a_setting_on_each_side():
    head = NonNegativeClassifier(3, 2, inputs="softplus", weights="exp")
    features = torch.randn(4, 3)
    expected = 4 * F.softplus(features) @ head.weight.exp().T
    assert torch.allclose(head(features), expected)
    with pytest.raises(ValueError, match="unknown transform 'abs'"):
        NonNegativeClassifier(3, 2, weights="abs")


def test_parts_are_learnt_from_the_first_step():
    """Classes that each have a feature of their own: the loss falls at every one of 20 steps."""
    generator = torch.Generator().manual_seed(0)
    target = torch.arange(60) % 3
    features = F.one_hot(target, 3).float() + 0.1 * torch.rand(60, 3, generator=generator)
    head = NonNegativeClassifier(3, 3)
    losses = []
    for _ in range(20):
        loss = F.cross_entropy(head(features), target)
        (slope,) = torch.autograd.grad(loss, head.weight)
        losses.append(float(loss.detach()))
        with torch.no_grad():
            head.weight -= slope / 4
    assert losses[0] == pytest.approx(math.log(3), rel=1e-6)
    assert all(later < earlier for earlier, later in itertools.pairwise(losses))
    assert bool((head(features).argmax(1) == target).all())


def test_one_class_is_refused():
    with pytest.raises(ValueError, match="at least two classes, got 1"):
        NonNegativeClassifier(3, 1)
