"""Vectors that exist, made readable: scikit-learn's fit and transform."""

from nonneg.estimators.description import FeatureDescription
from nonneg.estimators.editing import Found, nearest_samples
from nonneg.estimators.explanation import Explanation, SharedFeature
from nonneg.estimators.ncl import NCL

__all__ = [
    "NCL",
    "Explanation",
    "FeatureDescription",
    "Found",
    "SharedFeature",
    "nearest_samples",
]
