"""Data sets: embedded, official, or the user's own, all read through the ``Data`` protocol."""

from nonneg.data.arrays import numbered, read_array, read_labels
from nonneg.data.checking import check
from nonneg.data.dataset import ArrayData, Data, Subset, split_off, subset
from nonneg.data.feature_file import read_features, write_features
from nonneg.data.folder import ImageFolder
from nonneg.data.official import (
    CoarseArrayData,
    cifar10,
    cifar100,
    idx_images,
    read_idx,
)
from nonneg.data.sources import data_folder, digits, is_own_file, load, names
from nonneg.data.sprites import SpriteArray, Sprites, sprite_factors, sprite_numbers
from nonneg.data.text_table import TextTable, read_table
from nonneg.data.vectors import VectorData, read_vectors

__all__ = [
    "ArrayData",
    "CoarseArrayData",
    "Data",
    "ImageFolder",
    "SpriteArray",
    "Sprites",
    "Subset",
    "TextTable",
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
    "read_features",
    "read_idx",
    "read_labels",
    "read_table",
    "read_vectors",
    "split_off",
    "sprite_factors",
    "sprite_numbers",
    "subset",
    "write_features",
]
