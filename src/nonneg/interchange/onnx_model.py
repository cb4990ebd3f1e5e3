"""Encoders as ONNX models: samples in, features out, for batches of any size."""

import json
import logging
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from nonneg.encoder import Encoder
from nonneg.inference import evaluation_mode
from nonneg.io import check_output, replaced

INPUT, OUTPUT = "samples", "features"


class _Features(nn.Module):
    """The features of an encoder as one output, float32."""

    def __init__(self, encoder: Encoder) -> None:
        super().__init__()
        self.encoder = encoder

    def forward(self, samples: Tensor) -> Tensor:
        features: Tensor = self.encoder(samples).features
        return features.float()


def write_onnx(encoder: Encoder, path: str | Path, *, names: Sequence[str] = ()) -> None:
    """Write the encoder as an ONNX file, with a batch of any size; weights are inside.

    The input ``samples`` is float32 ``(n, *sample_shape)``, pixels in [0, 1] for images; the output
    ``features`` is float32 ``(n, n_features)``. Thresholds, gates and curation are inside too.

    Args:
        encoder: Of a trained or fitted run, or one side of a ``CrossNCL``.
        path: Ends in ``.onnx``.
        names: Of the features, kept as JSON in the file's metadata under ``feature_names``.

    Raises:
        ImportError: onnx or onnxscript is not installed.
        ValueError: The path has another ending, or the backbone has operators that ONNX has not.
        OSError: The file cannot be written.

    Example:
        ``write_onnx(ncl.encoder_, "features.onnx")``
    """
    path = Path(path)
    check_output(path, ".onnx", read=[])
    for needed in ("onnx", "onnxscript"):
        _check_import(needed)
    place = next(encoder.parameters()).device
    model: Any
    try:
        with evaluation_mode(encoder):
            model = _program(encoder.cpu()).model_proto
    finally:
        encoder.to(place)
    if names:
        known = model.metadata_props.add()
        known.key, known.value = "feature_names", json.dumps(list(names), ensure_ascii=False)
    with replaced(path) as file:
        file.write(model.SerializeToString())


def _program(encoder: Encoder) -> Any:  # noqa: ANN401
    example = torch.rand(2, *encoder.sample_shape)
    try:
        with _quiet():
            return torch.onnx.export(
                _Features(encoder).eval(),
                (example,),
                dynamo=True,
                input_names=[INPUT],
                output_names=[OUTPUT],
                dynamic_shapes=({0: torch.export.Dim("n")},),
                verbose=False,
            )
    except (RuntimeError, torch.onnx.OnnxExporterError) as error:
        reason = next(iter(str(error).strip().splitlines()), type(error).__name__)
        raise ValueError(
            f"this encoder cannot be written as ONNX ({reason}); export its features instead, with "
            "nonneg export RUN DATA --to jsonl"
        ) from error


@contextmanager
def _quiet() -> Iterator[None]:
    """Without what the exporter says of operators that are not used here."""
    logger = logging.getLogger("torch.onnx")
    was = logger.level
    logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logger.setLevel(was)


def _check_import(name: str) -> None:
    try:
        import_module(name)
    except (ImportError, RuntimeError, OSError) as error:
        raise ImportError(
            f"writing ONNX needs {name}, which cannot be imported ({error}); install it with: pip "
            "install 'nonneg[onnx]'"
        ) from error
