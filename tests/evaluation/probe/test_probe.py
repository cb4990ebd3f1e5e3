import math

import numpy as np
import pytest
import torch
from scipy import sparse
from sklearn.linear_model import LogisticRegression

from nonneg.evaluation.probe.linear import PENALTIES, fitted_probe, linear_probe
from nonneg.evaluation.probe.matrix import DenseRows, SparseRows, column_scales, standard_rows
from nonneg.metrics.inputs import checked_features


def blobs(n, d=6, n_classes=3, seed=0, spread=1.5):
    generator = torch.Generator().manual_seed(seed)
    centres = torch.randn(n_classes, d, generator=torch.Generator().manual_seed(99)) * 1.5
    labels = torch.randint(n_classes, (n,), generator=generator)
    return centres[labels] + spread * torch.randn(n, d, generator=generator), labels


def sparse_blobs(n, seed=0):
    x, y = blobs(n, d=20, seed=seed)
    return (x - 3.2).clamp(min=0), y


def test_accuracy_is_that_of_the_best_possible_line():
    x, y = blobs(600)
    test_x, test_y = blobs(500, seed=1)
    result = linear_probe(x, y, test_x, test_y)
    rival = LogisticRegression(max_iter=1000).fit(x.numpy(), y.numpy())
    rival = rival.score(test_x.numpy(), test_y.numpy())
    assert float(result) == pytest.approx(rival, abs=0.02)
    assert (result.n_train, result.n_test) == (600, 500)


def test_the_affine_map_is_scikit_learns_on_scaled_columns():
    x, y = blobs(300)
    probe = fitted_probe(x, y, penalties=(0.01,))
    mean, std = x.double().mean(0), x.double().std(0, correction=0)
    rival = LogisticRegression(C=1 / (0.01 * 300), tol=1e-8, max_iter=1000)
    rival.fit(((x - mean) / std).numpy(), y)
    expected = rival.predict_log_proba(((x - mean) / std).numpy())
    found = (x.double() @ probe.weight.T + probe.bias).log_softmax(1)
    np.testing.assert_allclose(found, expected, atol=0.03)
    assert math.isnan(probe.validation_accuracy)
    assert probe.tried == {}


def test_the_probe_is_what_linear_probe_measures():
    x, y = blobs(300)
    test_x, test_y = blobs(200, seed=1)
    probe, result = fitted_probe(x, y), linear_probe(x, y, test_x, test_y)
    assert probe.accuracy(test_x, test_y) == result.value
    assert probe.penalty == result.penalty
    assert probe.validation_accuracy == result.validation_accuracy == probe.tried[probe.penalty]
    assert probe.converged
    right = [int(p) == int(t) for p, t in zip(probe.predict(test_x), test_y, strict=True)]
    assert result.value == pytest.approx(sum(right) / 200)


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
    assert first.penalty == flipped.penalty
    assert first.validation_accuracy == flipped.validation_accuracy


def test_noise_asks_for_a_tight_fit_and_a_small_difference_for_a_loose_one():
    noisy = blobs(600, d=80, spread=8)
    generator = torch.Generator().manual_seed(0)
    both, difference = torch.randn(2, 600, generator=generator)
    fine = torch.stack([both, both + 0.1 * difference], dim=1), (difference > 0).long()
    tight, loose = (fitted_probe(x, y, penalties=(1e-4, 0.3)) for x, y in (noisy, fine))
    assert (tight.penalty, loose.penalty) == (0.3, 1e-4)
    for probe in (tight, loose):
        assert probe.tried[probe.penalty] == max(probe.tried.values()) > min(probe.tried.values())


def test_the_scan_ends_early_when_looser_is_clearly_worse():
    x, y = blobs(1500, d=300, spread=8)
    probe = fitted_probe(x, y)
    assert len(probe.tried) < len(PENALTIES)
    assert list(probe.tried) == sorted(PENALTIES, reverse=True)[: len(probe.tried)]


def test_scale_shift_order_and_dead_columns_do_not_matter():
    x, y = blobs(300)
    test_x, _ = blobs(200, seed=1)
    expected = fitted_probe(x, y)
    scale, shift = torch.tensor([1e-3, 1, 10, 100, 1e4, 1]), 5.0
    columns = torch.tensor([7, 2, 0, 5, 1, 4, 3, 6])
    moved = [
        torch.cat([z * scale + shift, torch.full((len(z), 2), 0.1)], 1)[:, columns]
        for z in (x, test_x)
    ]
    found = fitted_probe(moved[0], y)
    assert (found.n_constant, expected.n_constant) == (2, 0)
    assert found.penalty == expected.penalty
    same = found.predict(moved[1]) == expected.predict(test_x)
    assert float(same.double().mean()) > 0.99


def test_a_column_that_is_dead_in_training_is_ignored_in_the_test():
    x, y = blobs(100)
    x[:, 2] = 0
    probe, (new, _) = fitted_probe(x, y), blobs(50, seed=1)
    other = new.clone()
    other[:, 2] = 1e9
    assert torch.equal(probe.predict(new), probe.predict(other))


def test_a_rare_feature_is_not_blown_up():
    x = torch.zeros(50_000, 2)
    x[:, 0] = torch.linspace(-1, 1, 50_000)
    x[7, 1] = 3.0
    columns = column_scales(checked_features(x))
    # Its standard deviation is 3 / sqrt(50,000); a fiftieth of 3 is larger.
    assert float(columns.scale[1]) == pytest.approx(3 / 50, rel=1e-4)
    assert float(columns.scale[0]) == pytest.approx(1 / math.sqrt(3), rel=1e-4)


def test_scales_are_exact_far_from_zero():
    x = 1e6 + torch.tensor([[0.0], [2.0], [0.0], [2.0]], dtype=torch.float64)
    columns = column_scales(checked_features(x))
    assert (float(columns.mean[0]), float(columns.scale[0])) == (1e6 + 1, 1.0)


def test_sparse_and_dense_features_give_the_same_probe():
    x, y = sparse_blobs(400)
    columns = column_scales(checked_features(x))
    order = torch.arange(400).flip(0)
    rows = standard_rows(checked_features(x), columns, order)
    assert isinstance(rows, SparseRows)
    assert 0 < len(columns.kept) < 20
    dense = ((x[:, columns.kept] - columns.mean) / columns.scale)[order].float()
    weight = torch.randn(3, len(columns.kept), generator=torch.Generator().manual_seed(0))
    for which in (slice(0, 300), torch.tensor([3, 1])):
        torch.testing.assert_close(
            rows.part(which).logits(weight, torch.ones(3)),
            DenseRows(dense).part(which).logits(weight, torch.ones(3)),
            rtol=1e-4,
            atol=1e-4,
        )
    tensor, matrix = fitted_probe(x, y), fitted_probe(sparse.csr_array(x.numpy()), y)
    torch.testing.assert_close(tensor.weight, matrix.weight)
    assert tensor.accuracy(x, y) == matrix.accuracy(sparse.csr_array(x.numpy()), y)


def test_labels_may_have_gaps_and_unseen_ones_are_wrong():
    x, y = blobs(200)
    plain, gapped = fitted_probe(x, y), fitted_probe(x, y * 1000 + 5)
    assert gapped.classes.tolist() == [5, 1005, 2005]
    assert torch.equal(gapped.predict(x), plain.predict(x) * 1000 + 5)
    assert gapped.accuracy(x, torch.full((200,), 77)) == 0
    assert gapped.accuracy(x, torch.full((200,), 2_000_000)) == 0


def test_more_columns_than_samples():
    x, y = blobs(30, d=200)
    test_x, test_y = blobs(200, d=200, seed=1)
    probe = fitted_probe(x, y, n_folds=5)
    assert probe.converged
    assert probe.accuracy(test_x, test_y) > 0.95


@pytest.mark.parametrize("n_folds", [1, 3])
def test_one_sample_a_class_is_enough(n_folds):
    probe = fitted_probe(torch.eye(3), [4, 0, 2], n_folds=n_folds)
    assert probe.predict(torch.eye(3)).tolist() == [4, 0, 2]
    assert math.isnan(probe.validation_accuracy)
    assert probe.penalty in PENALTIES


def test_constant_features_give_the_commonest_class():
    probe = fitted_probe(torch.ones(9, 4), [0, 1, 1, 1, 1, 1, 1, 2, 2])
    assert probe.n_constant == 4
    assert probe.predict(torch.rand(3, 4)).tolist() == [1, 1, 1]


def test_double_and_half_precision_agree_with_single():
    x, y = blobs(300)
    single = fitted_probe(x, y)
    for other in (x.double(), x.bfloat16().float().bfloat16()):
        found = fitted_probe(other, y).predict(x)
        assert float((found == single.predict(x)).double().mean()) > 0.97


def test_inputs_are_left_alone_and_need_no_gradient():
    x, y = blobs(100)
    before = x.clone()
    probe = fitted_probe(x.requires_grad_(), y)
    assert torch.equal(x.detach(), before)
    assert not probe.weight.requires_grad


def test_the_same_seed_gives_the_same_probe():
    x, y = blobs(100)
    first, again = fitted_probe(x, y, seed=3), fitted_probe(x, y, seed=3)
    assert torch.equal(first.weight, again.weight)
    others = [fitted_probe(x, y, seed=seed).validation_accuracy for seed in range(5)]
    assert len(set(others)) > 1


def test_one_class_is_refused():
    x = torch.rand(10, 2)
    sentence = "^the training labels hold one class only; a probe needs at least two$"
    with pytest.raises(ValueError, match=sentence):
        linear_probe(x, torch.zeros(10, dtype=torch.int64), x, torch.zeros(10, dtype=torch.int64))


def test_wrong_inputs_are_named():
    x, y = blobs(20)
    bad = x.clone()
    bad[3, 1] = torch.nan
    with pytest.raises(ValueError, match=r"^train holds nan in row 3, column 1;"):
        fitted_probe(bad, y)
    with pytest.raises(ValueError, match=r"^test holds nan in row 3, column 1;"):
        linear_probe(x, y, bad, y)
    with pytest.raises(ValueError, match=r"^train labels has 19 labels for 20 samples$"):
        fitted_probe(x, y[1:])
    with pytest.raises(ValueError, match=r"^train is empty"):
        fitted_probe(x[:0], y[:0])
    with pytest.raises(TypeError, match=r"^train labels has dtype float32, not integers"):
        fitted_probe(x, y.float())
    with pytest.raises(ValueError, match=r"^X has 5 features, the probe was fitted to 6$"):
        fitted_probe(x, y).predict(x[:, :5])
    with pytest.raises(ValueError, match=r"^train has entries up to 3e\+30, whose squares"):
        fitted_probe(torch.tensor([[3e30], [-3e30]]), [0, 1])


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"penalties": ()}, r"^penalties is \(\); pass at least one"),
        ({"penalties": (0.1, 0.0)}, "each above 0 and finite$"),
        ({"validation_rate": 1.0}, "^validation_rate is 1.0; it must be between 0 and 1$"),
        ({"n_folds": 0}, "^n_folds is 0; it must be at least 1$"),
    ],
)
def test_wrong_settings_are_named(settings, sentence):
    with pytest.raises(ValueError, match=sentence):
        fitted_probe(*blobs(20), **settings)
