"""Vectors and graphs that exist, made readable: scikit-learn's fit and transform."""

from nonneg.estimators.cross import CrossNCL
from nonneg.estimators.description import FeatureDescription
from nonneg.estimators.editing import Found, nearest_samples
from nonneg.estimators.explanation import Explanation, SharedFeature
from nonneg.estimators.graph import GraphNCL
from nonneg.estimators.ncl import NCL

__all__ = [
    "NCL",
    "CrossNCL",
    "Explanation",
    "FeatureDescription",
    "Found",
    "GraphNCL",
    "SharedFeature",
    "nearest_samples",
]
