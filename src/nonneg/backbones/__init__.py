"""Backbones: networks from a batch to hidden vectors ``(n, h)``."""

from nonneg.backbones.adapters import TimmBackbone, TransformersBackbone
from nonneg.backbones.building import (
    LIBRARIES,
    Backbone,
    BackboneSettings,
    build,
    check_whole,
    names,
    portable,
)
from nonneg.backbones.resnet import ResNet
from nonneg.backbones.simple import MLP, Flatten, Frozen, Projection, hidden_size

__all__ = [
    "LIBRARIES",
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
    "check_whole",
    "hidden_size",
    "names",
    "portable",
]
