"""What does a rotation of the features change? For signed ones the reading, but not the loss."""

import numpy as np
import scipy.linalg

from nonneg.factorization.checking import FloatArray


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
    """Rotations ``(d, d)`` along a random direction, from none to further and further.

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
