"""The exact loss of features in a known world, and the matrix they factorise."""

import numpy as np
import scipy.linalg
from numpy.typing import ArrayLike
from torch import Tensor

from nonneg.factorization.checking import FloatArray, Matrix, MatrixLike
from nonneg.factorization.worlds import CrossWorld, World


def spectral_population_loss(
    f: ArrayLike, P: MatrixLike | CrossWorld, g: ArrayLike | None = None
) -> float:
    """The spectral contrastive loss of features over all pairs of a world (HaoChen et al. 2021).

    ``-2 Σ P(x,x') f(x)·f(x') + Σ P(x) P(x') (f(x)·f(x'))²``, without a sum over n² negatives: the
    second term is ``||Σ P(x) f(x) f(x)ᵀ||²``. It equals ``||Ā - F Fᵀ||² - ||Ā||²`` with
    ``F = sqrt(P(x)) f(x)``; see :func:`factorization_error`.

    Args:
        f: Features of the samples ``(n, d)``.
        P: The joint ``(n, n)`` or a world; with ``g`` ``(n_a, n_b)``.
        g: Two modalities: features of the second kind of samples ``(n_b, d)``, in place of the
            second f in both terms.

    Example:
        Two samples, each only paired with itself, and their indicator scaled by ``1/sqrt(P(x))``:

        >>> round(spectral_population_loss(2**0.5 * np.eye(2), 0.5 * np.eye(2)), 12)
        -2.0
    """
    world = _as_world(P, cross=g is not None)
    a, b = _two_sides(f, g, world)
    paired = float(((world.joint @ b) * a).sum())
    moment_a, moment_b = (
        (side * marginal[:, None]).T @ side
        for side, marginal in zip((a, b), world.marginals, strict=True)
    )
    return -2 * paired + float((moment_a * moment_b).sum())


def factorization_error(
    f: ArrayLike, P: MatrixLike | CrossWorld, g: ArrayLike | None = None
) -> float:
    """``||Ā - F Fᵀ||²``: how far features are from a factorisation of the normalised joint.

    Equals :func:`spectral_population_loss` plus ``||Ā||²``, which does not depend on the features.

    Args:
        f: Features of the samples ``(n, d)``.
        P: The joint ``(n, n)`` or a world; with ``g`` ``(n_a, n_b)``.
        g: Two modalities: features of the second kind ``(n_b, d)``; the product is ``F Gᵀ``.

    Example:
        >>> round(factorization_error(2**0.5 * np.eye(2), 0.5 * np.eye(2)), 12)
        0.0
    """
    world = _as_world(P, cross=g is not None)
    sides = _two_sides(f, g, world)
    F, G = (
        side * np.sqrt(marginal)[:, None]
        for side, marginal in zip(sides, world.marginals, strict=True)
    )
    return residual(world.normalized, F, G)


def residual(normalized: Matrix, F: FloatArray, G: FloatArray) -> float:
    """``||Ā - F Gᵀ||²``; for a sparse Ā without ever holding the dense product.

    Args:
        normalized: Ā ``(n_a, n_b)``.
        F: ``(n_a, d)``.
        G: ``(n_b, d)``.
    """
    if isinstance(normalized, np.ndarray):
        return float(np.square(normalized - F @ G.T).sum())
    crossed = float(((normalized @ G) * F).sum())
    return float(np.square(normalized.data).sum() - 2 * crossed + ((F.T @ F) * (G.T @ G)).sum())


def factor_of(features: ArrayLike, world: World) -> FloatArray:
    """F ``(n, d)`` of features: each row times the root of its sample's probability."""
    factor: FloatArray = _checked(features, world.n_samples, "features") * _root(world)
    return factor


def features_of(factor: ArrayLike, world: World) -> FloatArray:
    """Features ``(n, d)`` of a factor F: the opposite of :func:`factor_of`."""
    features: FloatArray = _checked(factor, world.n_samples, "factor") / _root(world)
    return features


def spectral_cross_batch(z_a: Tensor, z_b: Tensor) -> Tensor:
    """The spectral contrastive loss of a batch of pairs of two modalities.

    ``-2 mean_i f_i·g_i + mean_{i≠j} (f_i·g_j)²``; on independent pairs an unbiased estimate of
    :func:`spectral_population_loss` with g.

    Args:
        z_a: ``(n, d)``, at least two rows.
        z_b: ``(n, d)``; row i belongs to row i of ``z_a``.

    Example:
        >>> import torch
        >>> spectral_cross_batch(torch.eye(2), torch.eye(2))
        tensor(-2.)
    """
    n = len(z_a)
    if z_a.ndim != 2 or z_a.shape != z_b.shape or n < 2:
        raise ValueError(
            "z_a and z_b must be (n, d) with the same n of at least 2, "
            f"got {tuple(z_a.shape)} and {tuple(z_b.shape)}"
        )
    partners = (z_a * z_b).sum(1)  # (n,)
    everyone = ((z_a.T @ z_a) * (z_b.T @ z_b)).sum()
    return -2 * partners.mean() + (everyone - partners.square().sum()) / (n * (n - 1))


def _root(world: World) -> FloatArray:
    root: FloatArray = np.sqrt(world.marginal)[:, None]
    return root


def _as_world(P: MatrixLike | CrossWorld, *, cross: bool) -> CrossWorld:
    if isinstance(P, CrossWorld):
        if not cross and not isinstance(P, World):
            raise TypeError(
                "this world has two kinds of samples; give the features of both, f and g"
            )
        return P
    return CrossWorld(P) if cross else World(P)


def _two_sides(
    f: ArrayLike, g: ArrayLike | None, world: CrossWorld
) -> tuple[FloatArray, FloatArray]:
    n_a, n_b = (len(marginal) for marginal in world.marginals)
    a = _checked(f, n_a, "f")
    b = a if g is None else _checked(g, n_b, "g")
    if a.shape[1] != b.shape[1]:
        raise ValueError(f"f has {a.shape[1]} features and g has {b.shape[1]}; give both the same")
    return a, b


def _checked(features: ArrayLike, n_samples: int, name: str) -> FloatArray:
    checked = np.asarray(features, dtype=np.float64)
    if checked.ndim != 2 or len(checked) != n_samples:
        raise ValueError(
            f"{name} has shape {checked.shape}; this world needs ({n_samples}, n_features)"
        )
    if not np.isfinite(checked).all():
        raise ValueError(f"{name} has NaN or infinite entries")
    return checked


def random_rotation(n_features: int, rng: np.random.Generator) -> FloatArray:
    """A rotation ``(d, d)``, every one equally likely.

    Example:
        >>> R = random_rotation(3, np.random.default_rng(0))
        >>> (R @ R.T).round(12) + 0.0, round(float(np.linalg.det(R)), 12)
        (array([[1., 0., 0.],
               [0., 1., 0.],
               [0., 0., 1.]]), 1.0)
    """
    directions, triangle = np.linalg.qr(rng.standard_normal((n_features, n_features)))
    rotation: FloatArray = directions * np.sign(np.diag(triangle))
    if np.linalg.det(rotation) < 0:
        rotation[:, 0] *= -1
    return rotation


def rotation_path(
    n_features: int, rng: np.random.Generator, degrees: FloatArray
) -> list[FloatArray]:
    """Rotations ``(d, d)`` along a random direction, by growing angles from zero.

    Args:
        n_features: d.
        rng: Where the direction comes from.
        degrees: How far; the plane that turns most turns by this angle.

    Example:
        In two dimensions there is one plane:

        >>> path = rotation_path(2, np.random.default_rng(0), np.array([0.0, 90.0]))
        >>> np.abs(path[1]).round(12)
        array([[0., 1.],
               [1., 0.]])
    """
    if n_features < 2:
        raise ValueError(f"{n_features} feature cannot be rotated; give at least 2")
    draws = rng.standard_normal((n_features, n_features))
    generator = draws - draws.T
    generator /= np.linalg.norm(generator, ord=2)
    return [np.asarray(scipy.linalg.expm(np.deg2rad(angle) * generator)) for angle in degrees]
