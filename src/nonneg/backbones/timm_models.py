"""How does a model of timm become a backbone? By name, without its classifier."""

import difflib
from collections.abc import Mapping, Sequence
from typing import Any

from torch import Tensor, nn

from nonneg.backbones.extras import extra
from nonneg.backbones.output import hidden_size

PREFIX = "timm:"


class TimmBackbone(nn.Module):
    """A model that timm knows by name, with its pooling and without its classifier.

    Building it again needs no network: name and arguments are all there is to it. For a model
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
        model = name.removeprefix(PREFIX)
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
