"""What makes a pair: the protocol, and the pairs that need no other knowledge than the sample."""

from nonneg.pairs.draws import Draws
from nonneg.pairs.file_views import FileViews
from nonneg.pairs.image_views import ImageViews
from nonneg.pairs.noise import NoisePairs
from nonneg.pairs.protocol import Batch, Pairs, PreparedPairs
from nonneg.pairs.recipes import RECIPES, recipe
from nonneg.pairs.view_settings import ViewSettings

__all__ = [
    "RECIPES",
    "Batch",
    "Draws",
    "FileViews",
    "ImageViews",
    "NoisePairs",
    "Pairs",
    "PreparedPairs",
    "ViewSettings",
    "recipe",
]
