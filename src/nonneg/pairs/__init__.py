"""What makes a pair: the protocol, and the pairs that need no other knowledge than the sample."""

from nonneg.pairs.image_views import FileViews, ImageViews
from nonneg.pairs.neighbours import NeighborPairs, nearest_neighbors
from nonneg.pairs.protocol import Batch, Draws, Pairs, PreparedPairs, two_views
from nonneg.pairs.relations import GraphPairs, LabelPairs, NoisePairs, given_pairs
from nonneg.pairs.view_settings import RECIPES, ViewSettings, recipe

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
