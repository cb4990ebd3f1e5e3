"""Data sets: embedded, official, or the user's own, all read through the ``Data`` protocol."""

from nonneg.data.arrays import read_array
from nonneg.data.checking import check
from nonneg.data.cifar import CoarseArrayData, cifar10, cifar100
from nonneg.data.dataset import ArrayData, Data
from nonneg.data.folder import ImageFolder
from nonneg.data.idx import idx_images, read_idx
from nonneg.data.labels import read_labels
from nonneg.data.numbering import numbered
from nonneg.data.official import data_folder
from nonneg.data.scikit_digits import digits
from nonneg.data.sources import is_own_file, load, names
from nonneg.data.sprites import SpriteArray, Sprites, sprite_factors, sprite_numbers
from nonneg.data.subset import Subset, split_off, subset
from nonneg.data.vectors import VectorData, read_vectors

__all__ = [
    "ArrayData",
    "CoarseArrayData",
    "Data",
    "ImageFolder",
    "SpriteArray",
    "Sprites",
    "Subset",
    "VectorData",
    "check",
    "cifar10",
    "cifar100",
    "data_folder",
    "digits",
    "idx_images",
    "is_own_file",
    "load",
    "names",
    "numbered",
    "read_array",
    "read_idx",
    "read_labels",
    "read_vectors",
    "split_off",
    "sprite_factors",
    "sprite_numbers",
    "subset",
]
