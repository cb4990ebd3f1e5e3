"""Encoders as ONNX models: samples in, features out, for batches of any size."""

from importlib import import_module
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from nonneg.backbones.simple import Frozen, Projection
from nonneg.encoder import Encoder
from nonneg.interchange.folding import folded_head
from nonneg.io import replaced

INPUT, OUTPUT = "samples", "features"


class _Features(nn.Module):
    """The features of an encoder as one output, computed by operators that ONNX has."""

    def __init__(self, encoder: Encoder) -> None:
        super().__init__()
        projection = encoder.backbone.frozen if isinstance(encoder.backbone, Frozen) else None
        # Scaling by powers of two, which keeps huge rows exact, has no operator there.
        self.folded = folded_head(encoder) if isinstance(projection, Projection) else None
        self.encoder = None if self.folded else encoder

    def forward(self, samples: Tensor) -> Tensor:
        if self.folded is not None:
            return self.folded(samples)
        assert self.encoder is not None
        features: Tensor = self.encoder(samples).features
        return features


def write_onnx(encoder: Encoder, path: str | Path) -> None:
    """Write the encoder as an ONNX file, with a batch of any size; weights are inside.

    The input ``samples`` is float32 ``(n, *sample_shape)``, pixels in [0, 1] for images; the output
    is ``features``, float32 ``(n, n_features)``.

    Args:
        encoder: Of a trained or fitted run.
        path: Ends in ``.onnx``.

    Raises:
        ImportError: onnx or onnxscript is not installed.
        ValueError: The encoder has a threshold, which has no operator that is as exact.
    """
    for needed in ("onnx", "onnxscript"):
        _checked_import(needed)
    if encoder.settings.threshold:
        raise ValueError(
            "a threshold, from target_active, cannot be exported exactly; fit with max_active "
            "instead, or set threshold_ to 0"
        )
    module = _Features(encoder).eval()
    example = torch.rand(2, *encoder.sample_shape)
    program = torch.onnx.export(
        module,
        (example,),
        dynamo=True,
        input_names=[INPUT],
        output_names=[OUTPUT],
        dynamic_shapes=({0: torch.export.Dim("n")},),
        verbose=False,
    )
    model: Any = program.model_proto  # type: ignore[union-attr]
    with replaced(Path(path)) as file:
        file.write(model.SerializeToString())


def _checked_import(name: str) -> Any:  # noqa: ANN401
    try:
        return import_module(name)
    except (ImportError, RuntimeError, OSError) as error:
        raise ImportError(
            f"writing ONNX needs {name}, which cannot be imported ({error}); install it with: pip "
            "install 'nonneg[onnx]'"
        ) from error
