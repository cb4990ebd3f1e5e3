import numpy as np
import pytest
import torch
from sklearn.linear_model import LogisticRegression

from nonneg.evaluation import linear_probe
from nonneg.evaluation.probe import _fit, _logits


def blobs(n, d=6, n_classes=3, seed=0, spread=1.5):
    generator = torch.Generator().manual_seed(seed)
    centres = torch.randn(n_classes, d, generator=torch.Generator().manual_seed(99)) * 1.5
    labels = torch.randint(n_classes, (n,), generator=generator)
    return centres[labels] + spread * torch.randn(n, d, generator=generator), labels


@pytest.mark.parametrize("strength", [1e-3, 1e-1])
def test_the_solver_finds_scikit_learns_optimum(strength):
    x, y = blobs(300)
    weight = _fit(x.double(), y, strength, torch.zeros(3, 7, dtype=torch.float64))
    # Theirs: sum of losses + |w|² / (2 C); ours: mean of losses + strength |w|² / 2.
    rival = LogisticRegression(C=1 / (strength * len(x)), tol=1e-8, max_iter=1000).fit(x, y)
    ours = torch.softmax(_logits(weight, x.double()), dim=1).numpy()
    np.testing.assert_allclose(ours, rival.predict_proba(x), atol=1e-3)


def test_accuracy_is_that_of_the_best_possible_line():
    x, y = blobs(600)
    test_x, test_y = blobs(500, seed=1)
    result = linear_probe(x, y, test_x, test_y)
    rival = LogisticRegression(max_iter=1000).fit(x, y).score(test_x, test_y)
    assert float(result) == pytest.approx(rival, abs=0.02)
    assert (result.n_train, result.n_test) == (600, 500)


def test_chance_on_permuted_labels():
    x, y = blobs(600)
    order = torch.randperm(600, generator=torch.Generator().manual_seed(0))
    test_x, test_y = blobs(500, seed=1)
    assert float(linear_probe(x, y[order], test_x, test_y)) < 0.5


def test_the_strength_is_chosen_on_training_samples_only():
    x, y = blobs(200)
    test_x, test_y = blobs(100, seed=1)
    first = linear_probe(x, y, test_x, test_y)
    flipped = linear_probe(x, y, test_x, (test_y + 1) % 3)
    assert first.strength == flipped.strength
    assert first.validation_accuracy == flipped.validation_accuracy


def test_scale_shift_and_dead_columns_do_not_matter():
    x, y = blobs(300)
    test_x, test_y = blobs(200, seed=1)
    expected = float(linear_probe(x, y, test_x, test_y))
    scale, shift = torch.tensor([1e-3, 1, 10, 100, 1e4, 1]), 5.0
    moved = [torch.cat([z * scale + shift, torch.zeros(len(z), 2)], 1) for z in (x, test_x)]
    assert float(linear_probe(moved[0], y, moved[1], test_y)) == pytest.approx(expected, abs=0.01)


def test_inputs_are_left_alone():
    x, y = blobs(100)
    before = x.clone()
    linear_probe(x, y, x, y)
    assert torch.equal(x, before)


def test_one_class_is_refused():
    x = torch.rand(10, 2)
    sentence = "^the training labels hold one class only; a probe needs at least two$"
    with pytest.raises(ValueError, match=sentence):
        linear_probe(x, torch.zeros(10, dtype=torch.int64), x, torch.zeros(10, dtype=torch.int64))
