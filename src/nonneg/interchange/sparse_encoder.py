"""Fitted features as a ``SparseEncoder`` of sentence-transformers, made of its own modules only."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from torch import nn

from nonneg.interchange.folding import FoldedHead, Layer

if TYPE_CHECKING:
    pass

NAMES_FILE = "feature_names.json"


def sparse_encoder(head: FoldedHead, model: Any) -> Any:  # noqa: ANN401
    """A ``SparseEncoder``: the modules of a ``SentenceTransformer``, then those of the head.

    Args:
        head: From :func:`nonneg.interchange.folding.folded_head`.
        model: What made the vectors that the head was fitted to.
    """
    library = import_module("sentence_transformers")
    modules = import_module("sentence_transformers.sentence_transformer.modules")

    def dense(layer: Layer) -> Any:  # noqa: ANN401
        n_out, n_in = layer.weight.shape
        return modules.Dense(
            n_in,
            n_out,
            activation_function=nn.ReLU() if layer.is_rectified else nn.Identity(),
            init_weight=layer.weight.clone(),
            init_bias=layer.bias.clone(),
        )

    parts = [*model, dense(head.first), modules.Normalize(), *map(dense, head.then)]
    return library.SparseEncoder(modules=parts, max_active_dims=head.max_active, device="cpu")
