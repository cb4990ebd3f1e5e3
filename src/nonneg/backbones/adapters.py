"""Models of timm and of transformers as backbones."""

import difflib
import importlib
import json
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from nonneg.backbones.simple import hidden_size, trial_width


def extra(package: str, *names: str) -> Any:  # noqa: ANN401
    """An optional package, imported.

    Some packages import lazily, or break on a binary part of another (timm on torchvision's): that
    raises ``RuntimeError`` or ``OSError``, and only when the name is touched.

    Args:
        package: Also the name of the extra.
        names: Attributes that will be used, touched here.

    Raises:
        ImportError: With the reason and the command that installs it.
    """
    try:
        module = importlib.import_module(package)
        for name in names:
            getattr(module, name)
    except (ImportError, RuntimeError, OSError) as error:
        raise ImportError(
            f"{package} models need the package {package}, which cannot be imported ({error}); "
            f"install it with: pip install {package}"
        ) from error
    return module


TIMM_PREFIX = "timm:"


class TimmBackbone(nn.Module):
    """A model that timm knows by name, with its pooling and without its classifier.

    Building it again needs no network: name and arguments are enough. For a model
    that timm reads from the hub or from a folder, build it with timm and use it as a module.

    Args:
        name: As ``timm:resnet18`` or ``timm:vit_small_patch16_224.augreg_in21k``.
        sample_shape: ``(c, h, w)``; c is timm's ``in_chans``.
        pretrained: Whether to fetch the published weights.
        config: More arguments of timm's ``create_model``, as ``{"img_size": 32}``.

    Raises:
        ImportError: When timm cannot be imported.
        ValueError: When timm has no such model, or the model does not take such images.
    """

    def __init__(
        self,
        name: str,
        *,
        sample_shape: Sequence[int] = (3, 224, 224),
        pretrained: bool = False,
        config: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__()
        timm = extra("timm", "create_model")
        model = name.removeprefix(TIMM_PREFIX)
        if ":" in model:
            raise ValueError(
                f"{name!r} names no model of timm's own list; build it with timm.create_model and "
                "use it as a module"
            )
        if not timm.is_model(model):
            near = difflib.get_close_matches(model, timm.list_models(), n=3)
            raise ValueError(
                f"timm has no model {model!r}; "
                + (f"nearest: {', '.join(near)}" if near else "timm.list_models() gives the names")
            )
        self.config = dict(config or {})
        self.model: nn.Module = timm.create_model(
            model, pretrained=pretrained, num_classes=0, in_chans=sample_shape[0], **self.config
        )
        self.hidden_size = hidden_size(self.model, sample_shape)

    def forward(self, images: Tensor) -> Tensor:
        """Hidden vectors ``(n, hidden_size)`` of images ``(n, c, h, w)``."""
        return self.model(images)  # type: ignore[no-any-return]


TRANSFORMERS_PREFIX = "transformers:"
_POOLING = "nonneg_pooling"
_POOLER = "pooler."


class TransformersBackbone(nn.Module):
    """A vision or text model of transformers, its output pooled to one vector per sample.

    - A **vision** model gives its ``pooler_output``; a model without one, and one whose saved
      weights have none for it, gives the mean of its last hidden state over all tokens (the class
      token among them) or positions.
    - A **text** model gives the mean of its last hidden state over the tokens that the attention
      mask keeps. Its pooler, made for another task, is not used.

    ``config`` holds everything that is needed to build the model again without the network, the
    pooling included (as ``nonneg_pooling``); the weights are those of the state dict. Weights are
    read as safetensors only and kept in float32; parameters of a pooler that is not used do not
    require gradient.

    Args:
        name: As ``transformers:google/vit-base-patch16-224`` or ``transformers:path/to/folder``.
        sample_shape: Of one image, ``(c, h, w)``; not read by text models.
        pretrained: Whether to read the weights as well as the config.
        config: The whole configuration of the model; with it, ``name`` is not looked up.

    Raises:
        ImportError: When transformers cannot be imported.
        FileNotFoundError: When the name can be found neither as a folder nor on the hub.
        ValueError: When the model does not take such images, or is neither vision nor text.
    """

    def __init__(
        self,
        name: str,
        *,
        sample_shape: Sequence[int] = (3, 224, 224),
        pretrained: bool = False,
        config: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__()
        if pretrained and config:
            raise ValueError(f"{name!r} takes its config from its weights; give one of the two")
        transformers = extra("transformers", "AutoConfig", "AutoModel")
        source = name.removeprefix(TRANSFORMERS_PREFIX)
        if pretrained:
            model, lacks_pooler = _pretrained(transformers, source)
        else:
            model = transformers.AutoModel.from_config(
                _config(transformers, source, config), trust_remote_code=False
            )
            lacks_pooler = False
        self.model: nn.Module = model.float().train()
        self.reads = str(model.main_input_name)
        if self.reads not in ("pixel_values", "input_ids"):
            raise ValueError(
                f"{name!r} reads {self.reads}; a backbone reads pixel_values or input_ids"
            )
        is_text = self.reads == "input_ids"
        if is_text or lacks_pooler:
            setattr(model.config, _POOLING, "mean")
        self.pools_by_mean = getattr(model.config, _POOLING, "pooler") == "mean"
        if self.pools_by_mean and isinstance(getattr(model, "pooler", None), nn.Module):
            model.pooler.requires_grad_(False)
        # Through JSON, so that what is kept is what will be read; where it came from is left out.
        self.config: dict[str, Any] = json.loads(json.dumps(model.config.to_dict()))
        self.config.pop("_name_or_path", None)
        if is_text:
            tokens = torch.zeros(2, 3, dtype=torch.int64)
            self.hidden_size = trial_width(
                self, {"input_ids": tokens}, "a batch of input_ids alone"
            )
        else:
            self.hidden_size = hidden_size(self, sample_shape)

    def forward(self, inputs: Tensor | Mapping[str, Tensor]) -> Tensor:
        """Hidden vectors ``(n, hidden_size)``.

        Args:
            inputs: Images ``(n, c, h, w)``, or what a tokenizer or processor gives: a mapping with
                ``pixel_values``, or ``input_ids`` and ``attention_mask`` ``(n, length)``.
        """
        if isinstance(inputs, Tensor):
            if self.reads != "pixel_values":
                raise TypeError("a text model reads a mapping with input_ids, got a tensor")
            inputs = {"pixel_values": inputs}
        elif self.reads not in inputs:
            raise ValueError(f"this model reads {self.reads}, got {', '.join(inputs) or 'nothing'}")
        output = self.model(**inputs)
        if self.reads == "input_ids":
            return _masked_mean(output.last_hidden_state, inputs.get("attention_mask"))
        pooled = None if self.pools_by_mean else getattr(output, "pooler_output", None)
        if pooled is not None:
            return pooled.flatten(1)  # type: ignore[no-any-return]
        return _mean(output.last_hidden_state)


def _masked_mean(tokens: Tensor, mask: Tensor | None) -> Tensor:
    """Means ``(n, h)`` of the kept tokens of ``(n, length, h)``; of none, zeros."""
    if mask is None:
        return tokens.mean(1)
    weights = mask.to(tokens.dtype)[:, :, None]  # (n, length, 1)
    return (tokens * weights).sum(1) / weights.sum(1).clamp(min=1)


def _mean(last: Tensor) -> Tensor:
    """Means ``(n, h)`` over the tokens of ``(n, length, h)`` or the map of ``(n, h, y, x)``."""
    return last.mean(1) if last.ndim == 3 else last.mean((2, 3))


def _config(transformers: Any, source: str, config: Mapping[str, Any] | None) -> Any:  # noqa: ANN401
    if not config:
        try:
            return transformers.AutoConfig.from_pretrained(source, trust_remote_code=False)
        except (OSError, ValueError) as error:
            raise _not_found(source, error) from error
    if "model_type" not in config:
        raise ValueError(
            "a transformers config needs its model_type, as in the model's config.json"
        )
    try:
        return transformers.AutoConfig.for_model(**config)
    except (TypeError, ValueError) as error:
        raise ValueError(f"transformers cannot read this config: {_first(error)}") from error


def _pretrained(transformers: Any, source: str) -> tuple[Any, bool]:  # noqa: ANN401
    """The model with its saved weights, and whether they have none for its pooler."""
    try:
        model, report = transformers.AutoModel.from_pretrained(
            source, use_safetensors=True, output_loading_info=True, trust_remote_code=False
        )
    except (OSError, ValueError) as error:
        raise _not_found(source, error) from error
    missing = sorted(report["missing_keys"])
    others = [key for key in missing if not key.startswith(_POOLER)]
    if others:
        raise ValueError(
            f"the weights of {source!r} lack {len(others)} tensors of the model, such as "
            f"{others[0]}; they belong to another architecture"
        )
    return model, bool(missing)


def _not_found(source: str, error: Exception) -> FileNotFoundError:
    return FileNotFoundError(
        f"no transformers model {source!r}: it is no folder with config.json and safetensors "
        f"weights, and could not be fetched from the hub ({_first(error)})"
    )


def _first(error: Exception) -> str:
    """The first sentence of a message that goes on for many lines."""
    return str(error).strip().split("\n")[0].split(". ")[0].rstrip(".")
