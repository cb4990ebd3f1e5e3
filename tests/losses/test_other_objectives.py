"""Objectives besides InfoNCE: each against a slow oracle, a closed form and its invariants."""

import math

import pytest
import torch

from nonneg.losses.info_nce import decoupled_contrastive, info_nce_queue
from nonneg.losses.redundancy import barlow_twins, vicreg
from nonneg.losses.sigmoid import pairwise_sigmoid

TEMPERATURE = 0.3


def views(n=7, d=5, *, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(2, n, d, generator=generator, dtype=torch.float64)


def cosine(u, v):
    dot = sum(x * y for x, y in zip(u, v, strict=True))
    return dot / math.sqrt(sum(x * x for x in u) * sum(y * y for y in v))


def decoupled_by_loops(a, b):
    rows = a.tolist() + b.tolist()
    n, total = len(a), 0.0
    for i in range(2 * n):
        partner = (i + n) % (2 * n)
        others = [
            math.exp(cosine(rows[i], rows[k]) / TEMPERATURE)
            for k in range(2 * n)
            if k not in (i, partner)
        ]
        total += -cosine(rows[i], rows[partner]) / TEMPERATURE + math.log(sum(others))
    return total / (2 * n)


def sigmoid_by_loops(a, b):
    n, total = len(a), 0.0
    for i, u in enumerate(a.tolist()):
        for j, v in enumerate(b.tolist()):
            sign = 1 if i == j else -1
            logit = cosine(u, v) / TEMPERATURE - math.log(n - 1)
            total += math.log(1 + math.exp(-sign * logit))
    return total / n


def vicreg_by_loops(a, b):
    n, d = a.shape
    difference = sum(
        (x - y) ** 2 for x, y in zip(a.flatten().tolist(), b.flatten().tolist(), strict=True)
    )
    total = 25 * difference / (n * d)
    for z in (a.tolist(), b.tolist()):
        means = [sum(row[j] for row in z) / n for j in range(d)]
        for i in range(d):
            for j in range(d):
                c = sum((row[i] - means[i]) * (row[j] - means[j]) for row in z) / (n - 1)
                if i == j:
                    total += 25 * max(0.0, 1 - math.sqrt(c + 1e-4)) / d / 2
                else:
                    total += c * c / d
    return total


def barlow_by_loops(a, b):
    n, d = a.shape
    standard = []
    for z in (a.tolist(), b.tolist()):
        columns = []
        for j in range(d):
            column = [row[j] for row in z]
            mean = sum(column) / n
            spread = math.sqrt(sum((x - mean) ** 2 for x in column) / n + 1e-5)
            columns.append([(x - mean) / spread for x in column])
        standard.append(columns)
    total = 0.0
    for i in range(d):
        for j in range(d):
            c = sum(x * y for x, y in zip(standard[0][i], standard[1][j], strict=True)) / n
            total += (1 - c) ** 2 if i == j else 0.005 * c * c
    return total


LOSSES = {
    "decoupled": (
        lambda a, b: decoupled_contrastive(a, b, temperature=TEMPERATURE),
        decoupled_by_loops,
    ),
    "sigmoid": (lambda a, b: pairwise_sigmoid(a, b, temperature=TEMPERATURE), sigmoid_by_loops),
    "vicreg": (vicreg, vicreg_by_loops),
    "barlow": (barlow_twins, barlow_by_loops),
}


@pytest.mark.parametrize("name", sorted(LOSSES))
def test_agrees_with_loops(name):
    loss, oracle = LOSSES[name]
    for seed in range(3):
        a, b = views(seed=seed)
        assert float(loss(a, b)) == pytest.approx(oracle(a, b), rel=1e-10)


@pytest.mark.parametrize("name", sorted(LOSSES))
def test_the_gradient_is_that_of_the_value(name):
    a, b = (z.requires_grad_() for z in views(n=4, d=3))
    assert torch.autograd.gradcheck(LOSSES[name][0], (a, b))


@pytest.mark.parametrize("name", sorted(LOSSES))
def test_the_order_of_pairs_and_features_does_not_matter(name):
    loss, _ = LOSSES[name]
    a, b = views()
    rows, columns = torch.randperm(7), torch.randperm(5)
    expected = loss(a, b)
    torch.testing.assert_close(loss(a[rows], b[rows]), expected)
    torch.testing.assert_close(loss(a[:, columns], b[:, columns]), expected)


@pytest.mark.parametrize("name", ["decoupled", "sigmoid"])
def test_the_length_of_rows_does_not_matter_and_a_rotation_neither(name):
    loss, _ = LOSSES[name]
    a, b = views()
    rotation = torch.linalg.qr(torch.randn(5, 5, dtype=torch.float64)).Q
    torch.testing.assert_close(loss(3 * a, b / 2), loss(a, b))
    torch.testing.assert_close(loss(a @ rotation, b @ rotation), loss(a, b))


def test_barlow_sees_neither_the_mean_nor_the_scale_of_a_feature():
    a, b = views(n=50)
    scale = torch.tensor([10.0, 100.0, 20.0, 50.0, 30.0])
    torch.testing.assert_close(
        barlow_twins(a * scale + 3, b * scale), barlow_twins(a, b), rtol=1e-3, atol=0
    )


@pytest.mark.parametrize("name", sorted(LOSSES))
def test_half_precision_and_dead_features_give_finite_gradients(name):
    loss, _ = LOSSES[name]
    a, b = (z.bfloat16().relu().requires_grad_() for z in views())
    with torch.no_grad():
        a[:, 0], b[:, 0], a[2] = 0, 0, 0
    value = loss(a, b)
    assert value.dtype == torch.float32
    value.backward()
    assert all(bool(z.grad.isfinite().all()) for z in (a, b))


def test_a_queue_holds_the_negatives():
    a, b = views()
    queue = views(n=4, seed=9)[0]
    total = 0.0
    for u, v in zip(a.tolist(), b.tolist(), strict=True):
        right = math.exp(cosine(u, v) / TEMPERATURE)
        wrong = sum(math.exp(cosine(u, k) / TEMPERATURE) for k in queue.tolist())
        total -= math.log(right / (right + wrong))
    found = info_nce_queue(a, b, queue, temperature=TEMPERATURE)
    assert float(found) == pytest.approx(total / 7, rel=1e-10)


def test_keys_and_queue_do_not_learn():
    a, b = (z.requires_grad_() for z in views())
    queue = views(n=4, seed=9)[0].requires_grad_()
    info_nce_queue(a, b, queue, temperature=TEMPERATURE).backward()
    assert a.grad is not None
    assert b.grad is None
    assert queue.grad is None


def test_a_queue_of_another_width_is_refused():
    a, b = views()
    with pytest.raises(ValueError, match=r"queue must be \(n_negatives, 5\), got shape \(4, 6\)"):
        info_nce_queue(a, b, torch.ones(4, 6), temperature=TEMPERATURE)


def test_the_decoupled_loss_is_info_nce_without_the_partner_in_the_sum():
    """exp(decoupled) + 1 = exp(InfoNCE) for one anchor and its partner alike."""
    a = torch.tensor([[1.0, 0.0], [0.0, 1.0]])
    from nonneg import info_nce

    decoupled = decoupled_contrastive(a, a, temperature=TEMPERATURE)
    expected = math.log(1 + math.exp(float(decoupled)))
    assert float(info_nce(a, a, temperature=TEMPERATURE)) == pytest.approx(expected, rel=1e-6)
