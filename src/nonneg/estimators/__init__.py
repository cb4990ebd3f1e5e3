"""Vectors and graphs that exist, made readable: scikit-learn's fit and transform."""

from nonneg.estimators.cross import CrossNCL
from nonneg.estimators.description import FeatureDescription
from nonneg.estimators.graph import GraphNCL
from nonneg.estimators.hierarchy import Clusters, Hierarchy
from nonneg.estimators.ncl import NCL
from nonneg.estimators.reading import Explanation, Found, SharedFeature, nearest_samples

__all__ = [
    "NCL",
    "Clusters",
    "CrossNCL",
    "Explanation",
    "FeatureDescription",
    "Found",
    "GraphNCL",
    "Hierarchy",
    "SharedFeature",
    "nearest_samples",
]
