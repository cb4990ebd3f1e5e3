"""InfoNCE with soft targets: closed forms, invariants, a slow oracle, refusals."""

import math

import pytest
import torch

from nonneg.losses import cosine_weights, group_weights, info_nce, soft_info_nce


@pytest.fixture
def views():
    generator = torch.Generator().manual_seed(0)
    return torch.rand(2, 7, 5, generator=generator, dtype=torch.float64)


@pytest.fixture
def weights():
    return torch.rand(7, 7, generator=torch.Generator().manual_seed(1), dtype=torch.float64)


def oracle(z_a, z_b, weights, temperature, partner_rate):
    """Loops over anchors and the other side, in plain Python numbers."""

    def cosine(x, y):
        x, y = x.tolist(), y.tolist()
        return sum(p * q for p, q in zip(x, y, strict=True)) / math.hypot(*x) / math.hypot(*y)

    total = 0.0
    n = len(z_a)
    for anchors, others, of_anchor in (
        (z_a, z_b, lambda i, j: float(weights[i, j])),
        (z_b, z_a, lambda i, j: float(weights[j, i])),
    ):
        for i in range(n):
            similarities = [cosine(anchors[i], other) / temperature for other in others]
            log_sum = math.log(sum(math.exp(s) for s in similarities))
            mass = sum(of_anchor(i, j) for j in range(n))
            for j, similarity in enumerate(similarities):
                if mass:
                    target = (1 - partner_rate) * of_anchor(i, j) / mass + partner_rate * (i == j)
                else:
                    target = float(i == j)
                total -= target * (similarity - log_sum)
    return total / (2 * n)


@pytest.mark.parametrize("partner_rate", [0.0, 0.3, 1.0])
def test_it_is_what_loops_give(views, weights, partner_rate):
    weights[2] = 0  # an anchor that belongs with nobody
    value = soft_info_nce(*views, weights=weights, temperature=0.3, partner_rate=partner_rate)
    assert float(value) == pytest.approx(oracle(*views, weights, 0.3, partner_rate), rel=1e-12)


def test_one_positive_is_info_nce(views):
    value = soft_info_nce(*views, weights=torch.eye(7), temperature=0.2)
    torch.testing.assert_close(value, info_nce(*views, temperature=0.2, negatives="cross"))


def test_a_group_of_positives_is_supervised_contrastive_across_sides(views):
    groups = torch.tensor([0, 0, 1, 1, 1, 2, 3])
    value = soft_info_nce(*views, weights=group_weights(groups, groups), temperature=0.2)
    expected = info_nce(
        *views, temperature=0.2, negatives="cross", groups=groups, same_group="positive"
    )
    torch.testing.assert_close(value, expected)


def test_targets_that_the_similarities_reproduce_cost_their_entropy_and_have_no_gradient(views):
    z_a, z_b = views.clone().requires_grad_(), views[1]
    weights = cosine_weights(views[0], views[1], temperature=0.2)
    loss = soft_info_nce(z_a[0], z_b, weights=weights, temperature=0.2)
    entropies = [
        torch.distributions.Categorical(probs=table).entropy().mean()
        for table in (weights, weights.T)
    ]
    torch.testing.assert_close(loss, torch.stack(entropies).mean())
    (gradient,) = torch.autograd.grad(loss, z_a)
    assert gradient.abs().max() < 1e-6


def test_cosine_weights_are_a_softmax_of_cosines(views):
    weights = cosine_weights(*views, temperature=0.1)
    cosines = torch.nn.functional.cosine_similarity(views[0][:, None], views[1][None], dim=-1)
    expected = (cosines / 0.1).softmax(1)
    torch.testing.assert_close(weights / weights.sum(1, keepdim=True), expected)


def test_the_scale_of_weights_and_rows_changes_nothing(views, weights):
    value = soft_info_nce(*views, weights=weights, temperature=0.2)
    scaled = soft_info_nce(3 * views[0], views[1], weights=7 * weights, temperature=0.2)
    torch.testing.assert_close(scaled, value)


def test_the_order_of_pairs_and_of_sides_changes_nothing(views, weights):
    value = soft_info_nce(*views, weights=weights, temperature=0.2, partner_rate=0.2)
    order = torch.randperm(7, generator=torch.Generator().manual_seed(2))
    moved = weights[order][:, order]
    ordered = soft_info_nce(*views[:, order], weights=moved, temperature=0.2, partner_rate=0.2)
    torch.testing.assert_close(ordered, value)
    turned = soft_info_nce(*views.flip(0), weights=weights.T, temperature=0.2, partner_rate=0.2)
    torch.testing.assert_close(turned, value)


def test_a_rotation_changes_nothing(views, weights):
    """Which is why non-negativity is needed."""
    rotation, _ = torch.linalg.qr(torch.randn(5, 5, dtype=torch.float64))
    value = soft_info_nce(*views, weights=weights, temperature=0.2)
    turned = soft_info_nce(*(views @ rotation), weights=weights, temperature=0.2)
    torch.testing.assert_close(turned, value)


def test_rows_of_zeros_have_a_finite_loss_and_gradient(weights):
    z = torch.zeros(7, 5, requires_grad=True)
    loss = soft_info_nce(z, torch.rand(7, 5), weights=weights, temperature=0.05)
    loss.backward()
    assert loss.isfinite()
    assert z.grad.isfinite().all()


def test_inputs_are_left_as_they_were(views, weights):
    before = views.clone(), weights.clone()
    soft_info_nce(*views, weights=weights, temperature=0.2, partner_rate=0.5)
    torch.testing.assert_close((views, weights), before)


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"weights": torch.ones(7, 6)}, r"weights must be \(7, 7\).*got shape \(7, 6\)"),
        ({"weights": -torch.ones(7, 7)}, "weights must be finite and at least 0"),
        ({"weights": torch.full((7, 7), math.nan)}, "weights must be finite and at least 0"),
        ({"partner_rate": 1.5}, r"partner_rate is a share, in \[0, 1\], got 1\.5"),
        ({"temperature": 0.0}, "temperature must be a finite number above 0"),
    ],
)
def test_it_refuses(views, weights, changes, sentence):
    with pytest.raises(ValueError, match=sentence):
        soft_info_nce(*views, **{"weights": weights, "temperature": 0.2, **changes})
