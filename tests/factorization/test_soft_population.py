"""What soft targets factorise: the teacher's matrix, by loops over a world of a few samples."""

import math

import numpy as np
import pytest
import torch

from nonneg.factorization import (
    LatentWorld,
    World,
    factor_of,
    features_of,
    identification_score,
    posterior_features,
    projected_factor,
)
from nonneg.losses import info_nce, soft_info_nce

N = 6


@pytest.fixture
def features():
    return np.random.default_rng(0).random((2, N, 4))


@pytest.fixture
def weights():
    """Of a teacher that is not symmetric."""
    return np.random.default_rng(1).random((N, N)) ** 3


def loss_of(features, weights, **settings):
    a, b = (torch.from_numpy(side) for side in features)
    return soft_info_nce(a, b, weights=torch.from_numpy(weights), **settings)


def cosine(x, y):
    return sum(p * q for p, q in zip(x, y, strict=True)) / math.hypot(*x) / math.hypot(*y)


def targets_of(weights):
    """The teacher's distributions for the anchors of either side, as nested lists."""
    rows = [[w / sum(row) for w in row] for row in weights.tolist()]
    columns = [[w / sum(column) for w in column] for column in weights.T.tolist()]
    return rows, columns


def teacher_matrix(weights):
    """P(i, j), the mean over both sides as anchors, each drawn with probability 1 / n."""
    rows, columns = targets_of(weights)
    return [[(rows[i][j] + columns[j][i]) / (2 * N) for j in range(N)] for i in range(N)]


@pytest.mark.parametrize("rate", [0.0, 0.3, 1.0])
def test_the_matrix_is_all_that_the_loss_knows_of_the_teacher(features, weights, rate):
    """Cosines times P; what else there is of the loss has no target in it."""
    of_teacher = teacher_matrix(weights)
    s = [[cosine(x, y) / 0.3 for y in features[1]] for x in features[0]]
    expected = 0.0
    for i in range(N):
        to_others = math.log(sum(math.exp(s[i][k]) for k in range(N)))
        from_others = math.log(sum(math.exp(s[k][i]) for k in range(N)))
        expected += (to_others + from_others) / (2 * N)
        for j in range(N):
            of_pairs = (i == j) / N
            expected -= (rate * of_pairs + (1 - rate) * of_teacher[i][j]) * s[i][j]
    found = loss_of(features, weights, temperature=0.3, partner_rate=rate)
    assert float(found) == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("rate", [0.0, 0.3, 0.9, 1.0])
def test_a_share_of_partners_mixes_the_losses(features, weights, rate):
    weights[2] = 0  # an anchor that belongs with nobody
    a, b = (torch.from_numpy(side) for side in features)
    hard = float(info_nce(a, b, temperature=0.2, negatives="cross"))
    soft = float(loss_of(features, weights, temperature=0.2))
    found = float(loss_of(features, weights, temperature=0.2, partner_rate=rate))
    assert found == pytest.approx(rate * hard + (1 - rate) * soft, rel=1e-12)
    assert abs(hard - soft) > 0.05


def unit_vectors():
    vectors = np.random.default_rng(2).random((N, 3))
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


def weights_by_cosine(vectors, temperature):
    return np.array([[math.exp(cosine(x, y) / temperature) for y in vectors] for x in vectors])


def mean_entropy(weights):
    sides = targets_of(weights)
    return -sum(t * math.log(t) for side in sides for row in side for t in row) / (2 * N)


@pytest.mark.parametrize("temperature", [0.05, 0.2, 0.4])
def test_the_least_value_is_reached_by_the_teacher_and_one_constant_feature(temperature):
    """A student of a lower temperature than the teacher's 0.4 sees all samples nearer."""
    vectors, share = unit_vectors(), temperature / 0.4
    weights = weights_by_cosine(vectors, 0.4)
    best = np.column_stack([np.full(N, math.sqrt(1 - share)), math.sqrt(share) * vectors])
    assert best.min() >= 0
    rows = torch.from_numpy(best).requires_grad_()
    table = torch.from_numpy(weights)
    loss = soft_info_nce(rows, rows, weights=table, temperature=temperature)
    assert loss.item() == pytest.approx(mean_entropy(weights), abs=1e-12)
    (gradient,) = torch.autograd.grad(loss, rows)
    assert gradient.abs().max() < 1e-12
    rng = np.random.default_rng(3)
    for _ in range(20):
        moved = best + 0.05 * rng.standard_normal(best.shape)
        other = float(loss_of([moved, moved], weights, temperature=temperature))
        assert other > mean_entropy(weights) + 1e-6


def least_loss(weights, temperature, n_features=8):
    """By descent over non-negative features of a random start; and the features."""
    generator = torch.Generator().manual_seed(0)
    free = torch.rand(N, n_features, generator=generator, dtype=torch.float64).requires_grad_()
    settings = {"max_iter": 2000, "tolerance_grad": 1e-10, "tolerance_change": 1e-14}
    optimizer = torch.optim.LBFGS([free], **settings, line_search_fn="strong_wolfe")

    def closure():
        optimizer.zero_grad()
        rows = free.square()
        loss = soft_info_nce(rows, rows, weights=torch.from_numpy(weights), temperature=temperature)
        loss.backward()
        return loss

    optimizer.step(closure)
    return closure().item(), free.detach().square().numpy()


def test_descent_finds_the_entropy_and_similarities_that_reproduce_the_targets():
    weights = weights_by_cosine(unit_vectors(), 0.4)
    start = float(loss_of(np.random.default_rng(4).random((2, N, 8)), weights, temperature=0.2))
    found, features = least_loss(weights, 0.2)
    assert start > mean_entropy(weights) + 0.01
    assert found == pytest.approx(mean_entropy(weights), abs=1e-7)
    reproduced = targets_of(weights_by_cosine(features, 0.2))
    np.testing.assert_allclose(reproduced, targets_of(weights), atol=1e-3)


def test_a_student_of_a_higher_temperature_cannot_reproduce_sharp_targets():
    """Orthogonal vectors at 0.2: odds of exp(5), of which cosines from 0 to 1 reach exp(1)."""
    weights = weights_by_cosine(np.eye(N), 0.2)
    found, features = least_loss(weights, 1.0)
    total = math.e + N - 1
    near, far = weights[0, 0] / weights[0].sum(), weights[0, 1] / weights[0].sum()
    expected = -near * math.log(math.e / total) - (N - 1) * far * math.log(1 / total)
    assert found == pytest.approx(expected, abs=1e-6)
    assert found > mean_entropy(weights) + 0.5
    apart = [cosine(features[i], features[j]) for i in range(N) for j in range(i)]
    assert max(apart) < 1e-3


@pytest.fixture
def classes():
    """Three classes, each with a sample that only it makes, and samples that are shared."""
    likelihood = np.array([[5, 0, 0], [0, 3, 0], [0, 0, 4], [3, 2, 0], [0, 3, 2], [2, 2, 4.0]])
    return LatentWorld([0.5, 0.3, 0.2], likelihood / likelihood.sum(axis=0))


def test_the_spectral_loss_of_partners_drawn_by_a_teacher_factorises_its_matrix(weights):
    """Anchors of unequal frequency, a teacher that is not symmetric, both directions."""
    rng = np.random.default_rng(5)
    occurs = rng.dirichlet(np.full(N, 3.0)).tolist()
    rows, _ = targets_of(weights)
    joint = np.zeros((N, N))
    for i in range(N):
        for j in range(N):
            joint[i, j] += occurs[i] * rows[i][j] / 2
            joint[j, i] += occurs[i] * rows[i][j] / 2
    f = rng.random((N, 3))
    # Pairs: an anchor, then its partner, read in either direction. Negatives: two of these.
    reads = [(occurs[i] * rows[i][j], i, j) for i in range(N) for j in range(N)]
    either = [[(p / 2, i), (p / 2, j)] for p, i, j in reads]
    singles = [single for both in either for single in both]
    loss = sum(-2 * p * float(f[i] @ f[j]) for p, i, j in reads)
    loss += sum(p * q * float(f[i] @ f[j]) ** 2 for p, i in singles for q, j in singles)
    world = World(joint)
    factor = factor_of(f, world)
    normalized = world.normalized
    expected = np.square(normalized - factor @ factor.T).sum() - np.square(normalized).sum()
    assert loss == pytest.approx(expected, abs=1e-12)


def test_its_nonnegative_minimiser_is_the_posterior_if_the_teacher_knows_the_classes(classes):
    """The teacher says only how likely each partner is: P(j|i), a sum over classes."""
    posterior, likelihood = classes.posterior, classes.likelihood
    targets = [
        [sum(posterior[i, c] * likelihood[j, c] for c in range(3)) for j in range(N)]
        for i in range(N)
    ]
    np.testing.assert_allclose(np.sum(targets, axis=1), 1)
    joint = classes.marginal[:, None] * np.array(targets)
    taught = World((joint + joint.T) / 2)
    factor = projected_factor(taught.normalized, 3, np.random.default_rng(0))
    assert np.square(taught.normalized - factor @ factor.T).sum() < 1e-6
    found = identification_score(features_of(factor, taught), posterior_features(classes))
    assert found.value > 0.999
