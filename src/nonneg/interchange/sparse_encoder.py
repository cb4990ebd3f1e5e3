"""Fitted features as a ``SparseEncoder`` of sentence-transformers, made of its own modules only.

The head of a fitted estimator is folded into linear maps, a rectifier and rows of length 1, which
that library has: what is exported needs no code of ours, and no trust in any.
"""

import copy
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from nonneg.backbones.simple import Frozen, Projection
from nonneg.encoder import Encoder
from nonneg.head.nonnegative import TRANSFORMS
from nonneg.io import replaced_folder, write_bytes, write_json
from nonneg.texts import no_bars

NAMES_FILE = "feature_names.json"
_LIBRARY = "sentence_transformers"
# The largest difference that an export may have, as a share of the largest feature.
_TOLERANCE = 1e-5
_PROBES = (
    "A short text.",
    "Where is my parcel, and when will it arrive?",
    "The train to the coast was cancelled because of snow, so we stayed at home and cooked soup.",
    "42",
    "?!",
    "Ein Satz in einer anderen Sprache.",
)


class Layer(NamedTuple):
    """A linear map ``x W^T + b``, then a rectifier or nothing; float32."""

    weight: Tensor
    """``(n_out, n_in)``."""
    bias: Tensor
    """``(n_out,)``."""
    is_rectified: bool


class FoldedHead(NamedTuple):
    """Vectors to features: a linear map, rows scaled to length 1, linear maps, the largest kept."""

    first: Layer
    then: tuple[Layer, ...]
    max_active: int | None


@torch.no_grad()
def folded_head(encoder: Encoder) -> FoldedHead:
    """The encoder of an ``NCL``, or of one side of a ``CrossNCL``, as plain layers.

    Centre and axes become one linear map, batch normalisation a part of the map before it, and the
    length that rows are scaled to a part of the map behind; hidden features have weights of zero.
    All is computed in float64 and rounded once.

    Raises:
        ValueError: Something in it is no such layer: a threshold, a merged feature, a transform
            that gives no zeros, or another backbone.
    """
    projection = encoder.backbone.frozen if isinstance(encoder.backbone, Frozen) else None
    if not isinstance(projection, Projection):
        raise ValueError(
            "only encoders of fitted vectors fold into the modules of sentence-transformers; "
            "export this one with --to onnx"
        )
    for reason in _unfolded(encoder):
        raise ValueError(reason)
    axes, center = projection.axes.double(), projection.center.double()
    scale = projection.stretch.double() * projection.hidden_size**0.5
    layers: list[Layer] = []
    parts: list[nn.Module] = list(encoder.projector)
    for part in parts:
        if isinstance(part, nn.Linear):
            weight = part.weight.double() * (1.0 if layers else scale)
            layers.append(Layer(weight, part.bias.double(), False))
        elif isinstance(part, nn.BatchNorm1d):
            layers[-1] = _normalised(layers[-1], part)
        elif isinstance(part, nn.ReLU):
            layers[-1] = layers[-1]._replace(is_rectified=True)
        elif not isinstance(part, nn.Identity):
            raise ValueError(
                f"a {type(part).__name__} folds into no module of sentence-transformers; export "
                "with --to onnx"
            )
    off = encoder.curation.off
    last = Layer(layers[-1].weight.clone(), layers[-1].bias.clone(), is_rectified=True)
    last.weight[off], last.bias[off] = 0.0, 0.0
    layers[-1] = last
    first = Layer(axes.T, -(center @ axes), False)
    folded = tuple(Layer(w.float().contiguous(), b.float(), r) for w, b, r in (first, *layers))
    return FoldedHead(folded[0], folded[1:], encoder.settings.max_active)


def _unfolded(encoder: Encoder) -> Iterator[str]:
    """Why the head cannot be made of modules of sentence-transformers, with the remedy."""
    settings, curation = encoder.settings, encoder.curation
    if settings.threshold:
        yield (
            f"features up to {settings.threshold:.3g} of their row's length are dropped, for "
            "target_active, and sentence-transformers has no module for that; fit with max_active "
            "instead, or export with --to onnx"
        )
    if any(group[0] not in curation.hidden for group in curation.merged):
        yield (
            "features were merged, and sentence-transformers has no module for that; undo it with "
            "nonneg curate RUN --undo, or export with --to onnx"
        )
    if encoder.gate is not None:
        yield "sentence-transformers has no module for a gate; export with --to onnx"
    if not TRANSFORMS[settings.nonnegative].gives_zeros:
        yield (
            f"the transform {settings.nonnegative!r} gives no exact zeros, so there is no sparse "
            "encoder of it; export with --to onnx"
        )


def _normalised(layer: Layer, norm: nn.BatchNorm1d) -> Layer:
    """A linear map with the batch normalisation behind it, as in evaluation."""
    statistics: Any = (norm.running_mean, norm.running_var)
    mean, variance = (part.double() for part in statistics)
    factor = norm.weight.double() / (variance + norm.eps).sqrt()
    bias = (layer.bias - mean) * factor + norm.bias.double()
    return Layer(layer.weight * factor[:, None], bias, False)


def head_modules(head: FoldedHead) -> list[Any]:
    """The modules of sentence-transformers that compute features from a text's vector."""
    modules = _imported("sentence_transformer.modules")

    def dense(layer: Layer) -> Any:  # noqa: ANN401
        n_out, n_in = layer.weight.shape
        return modules.Dense(
            n_in,
            n_out,
            activation_function=nn.ReLU() if layer.is_rectified else nn.Identity(),
            init_weight=layer.weight.clone(),
            init_bias=layer.bias.clone(),
        )

    return [dense(head.first), modules.Normalize(), *map(dense, head.then)]


def sparse_encoder(encoder: Encoder, model: Any) -> Any:  # noqa: ANN401
    """A ``SparseEncoder``: the modules of a ``SentenceTransformer``, then those of the head.

    Its similarity is the cosine, by which features are compared. It shares the modules of the
    model, and is on the same device.

    Args:
        encoder: Of an ``NCL``, or of one side of a ``CrossNCL``.
        model: What made the vectors that the encoder was fitted to.

    Raises:
        ImportError: sentence-transformers is not installed.
        ValueError: The encoder cannot be folded, or the model is another one or needs code of its
            own.
    """
    head = folded_head(encoder)
    _check_model(model, encoder)
    return _imported().SparseEncoder(
        modules=[*model, *head_modules(head)],
        prompts=dict(model.prompts),
        default_prompt_name=model.default_prompt_name,
        similarity_fn_name="cosine",
        max_active_dims=head.max_active,
        device=str(model.device),
    )


def write_sparse_encoder(
    encoder: Encoder,
    model: Any,  # noqa: ANN401
    out: str | Path,
    *,
    names: Sequence[str],
    facts: Mapping[str, str] | None = None,
    mark: Mapping[str, Any] | None = None,
) -> float:
    """Write a folder that ``SparseEncoder(folder)`` loads, with names of features and a card.

    It is compared with the encoder on some texts first.

    Args:
        encoder: See :func:`sparse_encoder`.
        model: See there.
        out: A folder; what is there is replaced, when all is written.
        names: One per feature.
        facts: What else the card says: title and text.
        mark: Written beside it as ``export.json``; None writes none.

    Returns:
        The largest difference from the encoder, as a share of the largest feature.

    Raises:
        ValueError: See :func:`sparse_encoder`; or its features differ by more than 1e-5.
        OSError: The folder cannot be written.
    """
    out = Path(out)
    built = sparse_encoder(encoder, model)
    difference = _difference(built, encoder, model, [*_PROBES, *filter(None, names[:20])])
    if not difference <= _TOLERANCE:
        raise ValueError(
            f"features by the modules of sentence-transformers would differ by {difference:.1g} of "
            "the largest: its vectors lie far from zero for their spread; subtract their mean "
            "before the fit, or export with --to onnx"
        )
    with replaced_folder(out) as folder:
        try:
            with no_bars():
                built.save(str(folder), create_model_card=False)
        except OSError:
            raise
        except Exception as error:
            # safetensors has an error of its own for a full disk.
            raise OSError(f"cannot write {out}: {error}") from error
        write_json(folder / NAMES_FILE, list(names))
        write_bytes(folder / "README.md", card(encoder, out.name, facts or {}).encode())
        if mark is not None:
            write_json(folder / "export.json", dict(mark))
    return difference


def card(encoder: Encoder, name: str, facts: Mapping[str, str]) -> str:
    """The README.md of an exported folder, as Markdown with the metadata of the hub."""
    limit = encoder.settings.max_active
    rows = {
        "features": f"{encoder.n_features:,}, all at least 0",
        "active": "as many as are above 0" if limit is None else f"at most {limit} per text",
        "similarity": "cosine",
        **facts,
    }
    table = "\n".join(f"| {title} | {_cell(text)} |" for title, text in rows.items())
    return _CARD.format(name=name, table=table, folder=json.dumps(name))


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


_CARD = """---
library_name: sentence-transformers
pipeline_tag: feature-extraction
tags:
- sentence-transformers
- sparse-encoder
- sparse
- nonneg
---
# {name}

A sparse encoder: a text becomes a few features above zero, each of which stands for something that
texts are about. Its last layers were fitted by [Non-negative Contrastive
Learning](https://arxiv.org/abs/2403.12459) with nonneg, to the vectors of the sentence encoder that
is in this folder too. It consists of modules of sentence-transformers only.

| | |
|---|---|
{table}

## Use

```python
import json
from pathlib import Path

from sentence_transformers import SparseEncoder

folder = {folder}
model = SparseEncoder(folder)
Z = model.encode(["a text", "another one"])
print(model.similarity(Z, Z))  # cosines

names = json.loads((Path(folder) / "feature_names.json").read_text(encoding="utf-8"))
row = Z[0].coalesce()
for number, value in zip(row.indices()[0].tolist(), row.values().tolist()):
    print(names[number], round(value, 3))
```

`model.decode` knows the encoder's vocabulary and not these names: it shows a word of the
vocabulary in the place of each feature. An empty text has the features of the encoder's vector for
it, whereas nonneg gives it none.
"""


def title_and_licence(folder: str | Path) -> tuple[str | None, str | None]:
    """The title and the licence in the card of a model; None for what it does not say."""
    path = Path(folder) / "README.md"
    text = path.read_text(encoding="utf-8", errors="replace") if path.is_file() else ""
    head = re.match(r"---\n(.*?)\n---\n", text, re.S)
    title = re.search(r"^# +(\S[^\n]*)$", text[head.end() :] if head else text, re.M)
    licence = re.search(r"^license:[ \t]*(\S[^\n]*)$", head[1], re.M) if head else None
    return title and title[1].strip(), licence and licence[1].strip(" \t\"'")


def _check_model(model: Any, encoder: Encoder) -> None:  # noqa: ANN401
    kind = type(model).__name__
    if not isinstance(model, _imported().SentenceTransformer):
        raise ValueError(f"a {kind} is no SentenceTransformer; give the folder of one")
    for module in model:
        place = type(module)
        if not place.__module__.startswith(f"{_LIBRARY}."):
            raise ValueError(
                f"the sentence encoder has a module of its own, {place.__name__}, whose code an "
                "export does not carry; fit to the vectors of an encoder without"
            )
    if model.truncate_dim is not None:
        raise ValueError(
            f"the sentence encoder cuts vectors to {model.truncate_dim} numbers, which a "
            "SparseEncoder does not; fit to whole vectors"
        )
    if model.dtype not in (None, torch.float32):
        raise ValueError(
            f"the sentence encoder computes in {str(model.dtype).removeprefix('torch.')}, and the "
            "head in float32; save the encoder in float32 and fit again"
        )
    (width,) = encoder.sample_shape
    if (given := model.encode(["."]).shape[1]) != width:
        raise ValueError(
            f"the sentence encoder gives {given} numbers per text and the run reads {width}; give "
            "the encoder that made its vectors"
        )


def _difference(
    built: Any,  # noqa: ANN401
    encoder: Encoder,
    model: Any,  # noqa: ANN401
    texts: list[str],
) -> float:
    """How far features are apart before the largest are chosen, which may be among equals."""
    whole = copy.deepcopy(encoder)
    whole.thin(threshold=None, max_active=None)
    expected = whole.encode(model.encode(texts, convert_to_tensor=True).cpu()).features
    found = built.encode(texts, max_active_dims=encoder.n_features, convert_to_sparse_tensor=False)
    difference = (found.cpu() - expected).abs().max()
    return float(difference / expected.max().clamp(min=1.0))


def _imported(part: str = "") -> Any:  # noqa: ANN401
    try:
        return import_module(f"{_LIBRARY}.{part}" if part else _LIBRARY)
    except (ImportError, RuntimeError, OSError) as error:
        raise ImportError(
            f"an export to sentence-transformers needs it, and it cannot be imported ({error}); "
            "install it with: pip install 'nonneg[texts]'"
        ) from error
