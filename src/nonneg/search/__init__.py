"""Search among sparse features: exact, by the features that a query and a sample share."""

from nonneg.search.sparse_index import Hits, SparseIndex

__all__ = ["Hits", "SparseIndex"]
