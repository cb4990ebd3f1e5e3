"""Which real images need no download? The 1,797 handwritten digits that scikit-learn brings."""

import numpy as np
import torch

from nonneg.data.dataset import ArrayData, of_split


def digits(split: str = "train") -> ArrayData:
    """Grey images ``uint8 (n, 1, 8, 8)`` of ten digits: 1,437 to train, 360 to test.

    Sorted by digit, every fifth image is a test image, so that both parts hold each digit in the
    same share and the split is the same everywhere. scikit-learn's 17 grey levels are spread over
    0 to 255.

    Example:
        >>> len(digits("train")), len(digits("test")), digits().sample_shape
        (1437, 360, (1, 8, 8))
    """
    from sklearn.datasets import load_digits  # slow to import, and needed here only

    levels, numbers = load_digits(return_X_y=True)
    by_digit = np.argsort(numbers, kind="stable")
    is_test = np.zeros(len(numbers), dtype=bool)
    is_test[by_digit[::5]] = True
    chosen = of_split({"train": ~is_test, "test": is_test}, split)
    pixels = np.rint(levels[chosen] * (255 / 16)).astype(np.uint8)
    return ArrayData(
        torch.from_numpy(pixels).view(-1, 1, 8, 8),
        labels=torch.from_numpy(numbers[chosen].astype(np.int64)),
        name="digits",
        class_names=tuple("0123456789"),
    )
