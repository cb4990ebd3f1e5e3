"""Fitted features for other programs: sentence-transformers, ONNX and search engines."""

from nonneg.interchange.engines import ENGINES, engine_query, write_points
from nonneg.interchange.onnx_model import write_onnx
from nonneg.interchange.sparse_encoder import sparse_encoder, write_sparse_encoder

__all__ = [
    "ENGINES",
    "engine_query",
    "sparse_encoder",
    "write_onnx",
    "write_points",
    "write_sparse_encoder",
]
