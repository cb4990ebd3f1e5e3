import numpy as np
import pytest
import torch
from scipy import sparse

from nonneg.estimators import axes as denoising
from nonneg.estimators import axes as projection
from nonneg.estimators import inputs
from nonneg.estimators.axes import (
    Axes,
    Projection,
    fitted_projection,
    group_stability,
    kept_axes,
    neighbor_correlation,
    principal_axes,
)
from nonneg.estimators.inputs import check_finite, tiles

RNG = np.random.default_rng(0)
X = RNG.standard_normal((300, 12)) @ RNG.standard_normal((12, 12)) + 5


def spread(n_groups, noise, n_columns=24):
    centers = RNG.standard_normal((n_groups, n_columns))
    return centers[np.arange(1200) % n_groups] + noise * RNG.standard_normal((1200, n_columns))


@pytest.mark.parametrize("kind", [np.asarray, sparse.csr_array])
def test_axes_are_those_of_a_singular_value_decomposition(kind, monkeypatch):
    monkeypatch.setattr(inputs, "TILE_ENTRIES", 12 * 70)
    center, axes, variances = principal_axes(kind(X), seed=0)
    _, singular, expected = np.linalg.svd(X - X.mean(axis=0))
    np.testing.assert_allclose(center, X.mean(axis=0), rtol=1e-5)
    np.testing.assert_allclose(variances, singular**2 / 300, rtol=1e-3)
    np.testing.assert_allclose(np.abs(np.sum(axes.numpy() * expected.T, axis=0)), 1, atol=1e-3)


@pytest.mark.parametrize("kind", [np.asarray, sparse.csr_array])
def test_many_columns_are_searched_for_the_strongest_axes(kind, monkeypatch):
    whole = principal_axes(X, seed=0)
    monkeypatch.setattr(projection, "_MAX_COVARIANCE", 10)
    monkeypatch.setattr(projection, "_MAX_AXES", 4)
    calls = []
    monkeypatch.setattr(projection, "tiles", lambda X: calls.append(1) or tiles(X))
    _, axes, variances = principal_axes(kind(X), seed=0)
    assert (len(calls) == 1) == (kind is sparse.csr_array)  # products of sparse X stay sparse
    assert axes.shape == (12, 4)
    torch.testing.assert_close(variances, whole[2][:4], rtol=1e-3, atol=1e-5)
    torch.testing.assert_close(axes, whole[1][:, :4], rtol=1e-2, atol=1e-3)


def test_hidden_vectors_have_one_length_and_ignore_the_center():
    module = fitted_projection(X, "none", seed=0)
    hidden = module(torch.from_numpy(X).float())
    torch.testing.assert_close(hidden.norm(dim=1), torch.full((300,), 12**0.5))
    shifted = fitted_projection(X + 100, "none", seed=0)(torch.from_numpy(X + 100).float())
    torch.testing.assert_close(shifted, hidden, rtol=1e-2, atol=1e-3)


def test_a_number_of_axes_can_be_asked_for():
    assert fitted_projection(X, 5, seed=0).hidden_size == 5
    with pytest.raises(ValueError, match="denoise=13 asks for more principal axes than the 12"):
        fitted_projection(X, 13, seed=0)
    with pytest.raises(ValueError, match="than the 4 found in the 5 rows and 12 columns of y"):
        fitted_projection(X[:5], 5, seed=0, name="y")


def test_groups_keep_their_axes_and_noise_alone_keeps_all():
    groups = fitted_projection(spread(9, 0.3), "auto", seed=0).hidden_size
    assert 7 <= groups <= 9  # nine groups span eight axes
    noise = fitted_projection(RNG.standard_normal((1200, 24)), "auto", seed=0).hidden_size
    assert noise >= 23
    vague = fitted_projection(spread(9, 1.5), "auto", seed=0).hidden_size
    assert groups < vague


def test_neighbors_agree_on_the_axes_of_groups_only():
    positions = torch.from_numpy(
        np.hstack([10 * spread(9, 0.1, 20), RNG.standard_normal((1200, 20))])
    )
    positions = (positions - positions.mean(dim=0)).float()
    found = neighbor_correlation(positions, positions.var(dim=0), torch.Generator().manual_seed(0))
    assert found[:20].min() > 0.8
    assert found[20:].max() < 0.2


def test_one_axis_is_kept():
    assert kept_axes(torch.tensor([2.0]), torch.tensor([0.0])).tolist() == [0]
    assert kept_axes(torch.tensor([2.0]), torch.tensor([1.0])).tolist() == [0]


def test_bad_rows_are_numbered_across_tiles(monkeypatch):
    monkeypatch.setattr(inputs, "TILE_ENTRIES", 3 * 10)
    bad = np.zeros((40, 3))
    bad[[2, 15, 16, 30, 31, 39], 1] = np.inf
    with pytest.raises(ValueError, match="in 6 of 40 rows: 2, 15, 16, 30, 31, …"):
        check_finite(bad)
    assert sum(len(part) for _, part in tiles(bad)) == 40


def test_scale_does_not_matter():
    """Squares of large and small numbers are beyond float32."""
    groups = spread(9, 0.3)
    expected = fitted_projection(groups, "auto", seed=0).hidden_size
    for scale in (2.0**66, 2.0**-80):
        assert fitted_projection(groups * scale, "auto", seed=0).hidden_size == expected


def test_one_large_constant_column_hides_nothing():
    wide = np.hstack([X, np.full((300, 1), 1e6)])
    assert principal_axes(wide, seed=0)[1].shape == (13, 12)
    with pytest.raises(ValueError, match="X is constant: all 300 rows are equal"):
        principal_axes(np.tile(wide[:1], (300, 1)), seed=0)


@pytest.mark.parametrize("kind", [np.asarray, sparse.csr_array])
def test_numbers_too_small_for_float32_are_not_called_constant(kind):
    with pytest.raises(ValueError, match=r"^X holds numbers too small for float32 \(below 1e-45\)"):
        principal_axes(kind(1e-300 * X), seed=0)
    with pytest.raises(ValueError, match="X is constant"):
        principal_axes(kind(0 * X), seed=0)
    # What float32 holds is enough, however small.
    torch.testing.assert_close(
        principal_axes(kind(1e-30 * X), seed=0)[1].abs(), principal_axes(X, seed=0)[1].abs()
    )


def test_rows_to_compare_are_never_held_whole(monkeypatch):
    asked = []
    real = denoising.dense_rows

    def watched(rows, numbers):
        asked.append(len(numbers))
        return real(rows, numbers)

    monkeypatch.setattr(denoising, "dense_rows", watched)
    monkeypatch.setattr(denoising, "TILE_ENTRIES", 12 * 70)
    fitted_projection(sparse.csr_array(X), "auto", seed=0)
    assert asked == [70, 70, 70, 70, 20]


def test_whitened_axes_keep_directions_and_measure_length_along_strong_axes():
    X = RNG.standard_normal((500, 6)) * np.array([8.0, 5.0, 3.0, 2.0, 1.0, 0.5])
    axes = Axes(*principal_axes(X, 0))
    kept = torch.arange(6)
    hidden = axes.projection(kept, whitening=0.5)(torch.from_numpy(X).float())
    positions = (torch.from_numpy(X).float() - axes.center) @ axes.directions
    unwhitened = hidden / axes.scales(kept, 0.5)
    cosine = torch.cosine_similarity(unwhitened, positions)
    torch.testing.assert_close(cosine, torch.ones(500))
    strong = (positions * axes.variances.float().pow(0.25)).norm(dim=1)
    ratio = unwhitened.norm(dim=1) / (positions.norm(dim=1) / strong)
    torch.testing.assert_close(ratio, ratio.mean().expand(500), rtol=1e-4, atol=0)
    assert 0.5 < float(hidden.square().mean()) < 2


def test_a_projection_saved_before_axes_were_stretched_is_read():
    projection = Projection(3, 2)
    state = {key: value for key, value in projection.state_dict().items() if key != "stretch"}
    projection.stretch.fill_(2)
    projection.load_state_dict(state)
    assert projection.stretch.tolist() == [1, 1]


@pytest.mark.parametrize("n_groups", [5, 6, 8])
def test_groups_that_both_halves_show_are_stable_and_noise_is_not(n_groups):
    groups = np.eye(12)[np.arange(600) % n_groups]
    noise = np.random.default_rng(0).standard_normal((600, 12))
    rows = [kind / np.linalg.norm(kind, axis=1)[:, None] for kind in (groups + 0.1 * noise, noise)]
    stable, chance = (group_stability(kind, seed=0) for kind in rows)
    assert stable > 0.99
    assert -0.1 < chance < 0.4
    assert group_stability(rows[0][:199], seed=0) == 0
    assert group_stability(rows[1], seed=0) == chance
