"""Vectors and graphs that exist, made readable: scikit-learn's fit and transform."""

from nonneg.estimators.cross import CrossNCL
from nonneg.estimators.description import FeatureDescription
from nonneg.estimators.graph import GraphNCL
from nonneg.estimators.groups import table_between, table_over
from nonneg.estimators.hierarchy import Clusters, Hierarchy
from nonneg.estimators.ncl import NCL
from nonneg.estimators.permutations import permutation_p
from nonneg.estimators.reading import Explanation, Found, SharedFeature, nearest_samples
from nonneg.estimators.records import Records
from nonneg.estimators.tables import table_of_examples, table_of_features, table_of_samples

__all__ = [
    "NCL",
    "Clusters",
    "CrossNCL",
    "Explanation",
    "FeatureDescription",
    "Found",
    "GraphNCL",
    "Hierarchy",
    "Records",
    "SharedFeature",
    "nearest_samples",
    "permutation_p",
    "table_between",
    "table_of_examples",
    "table_of_features",
    "table_of_samples",
    "table_over",
]
