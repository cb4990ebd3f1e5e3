"""Search among sparse features: exact, by the features that a query and a sample share."""

from nonneg.search.ranking import Fused, fused, idf_weights
from nonneg.search.sparse_index import Hits, SparseIndex

__all__ = ["Fused", "Hits", "SparseIndex", "fused", "idf_weights"]
