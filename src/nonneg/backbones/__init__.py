"""What reads the samples? A network from a batch to hidden vectors ``(n, h)``."""

from nonneg.backbones.building import Backbone, build, portable
from nonneg.backbones.frozen import Frozen
from nonneg.backbones.mlp import MLP, Flatten
from nonneg.backbones.output import hidden_size
from nonneg.backbones.projection import Projection
from nonneg.backbones.resnet import ResNet
from nonneg.backbones.settings import BackboneSettings, names
from nonneg.backbones.timm_models import TimmBackbone
from nonneg.backbones.transformers_models import TransformersBackbone

__all__ = [
    "MLP",
    "Backbone",
    "BackboneSettings",
    "Flatten",
    "Frozen",
    "Projection",
    "ResNet",
    "TimmBackbone",
    "TransformersBackbone",
    "build",
    "hidden_size",
    "names",
    "portable",
]
