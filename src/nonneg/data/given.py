"""What is taken as a data set? A data set, or the bare samples in a tensor or an array."""

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from nonneg.data.arrays import as_tensor
from nonneg.data.dataset import ArrayData, Data

Samples = Tensor | NDArray[np.generic] | Data


def as_data(samples: Samples) -> Data:
    """A data set as it is; bare samples ``(n, ...)`` as one without labels.

    Example:
        >>> as_data(np.zeros((5, 3))).sample_shape
        (3,)
    """
    if isinstance(samples, np.ndarray):
        samples = as_tensor(samples)
    return ArrayData(samples) if isinstance(samples, Tensor) else samples
