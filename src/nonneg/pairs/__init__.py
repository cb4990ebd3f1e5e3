"""What makes a pair: the protocol, and the pairs that need no other knowledge than the sample."""

from nonneg.pairs.draws import Draws
from nonneg.pairs.file_views import FileViews
from nonneg.pairs.given import given_pairs
from nonneg.pairs.graph import GraphPairs
from nonneg.pairs.image_views import ImageViews
from nonneg.pairs.labels import LabelPairs
from nonneg.pairs.neighbours import NeighborPairs, nearest_neighbors
from nonneg.pairs.noise import NoisePairs
from nonneg.pairs.protocol import Batch, Pairs, PreparedPairs, two_views
from nonneg.pairs.recipes import RECIPES, recipe
from nonneg.pairs.view_settings import ViewSettings

__all__ = [
    "RECIPES",
    "Batch",
    "Draws",
    "FileViews",
    "GraphPairs",
    "ImageViews",
    "LabelPairs",
    "NeighborPairs",
    "NoisePairs",
    "Pairs",
    "PreparedPairs",
    "ViewSettings",
    "given_pairs",
    "nearest_neighbors",
    "recipe",
    "two_views",
]
