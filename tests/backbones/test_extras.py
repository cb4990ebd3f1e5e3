"""A missing or broken optional package gives one sentence with the command that installs it."""

import importlib
import sys
import types

import pytest

from nonneg.backbones import BackboneSettings, build

PACKAGES = ["timm", "transformers"]


@pytest.mark.parametrize("package", PACKAGES)
def test_missing(package, monkeypatch):
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(ImportError, match=f"pip install {package}") as caught:
        build(BackboneSettings(name=f"{package}:some-model"), (3, 8, 8))
    assert str(caught.value).startswith(
        f"{package} models need the package {package}, which cannot"
    )


@pytest.mark.parametrize("error", [RuntimeError, OSError])
@pytest.mark.parametrize("package", PACKAGES)
def test_broken(package, error, monkeypatch):
    real = importlib.import_module

    def broken(name, *args):
        if name == package:
            raise error("operator torchvision::nms does not exist")
        return real(name, *args)

    monkeypatch.setattr(importlib, "import_module", broken)
    with pytest.raises(ImportError, match=r"nms does not exist\); install it with"):
        build(BackboneSettings(name=f"{package}:some-model"), (3, 8, 8))


def test_lazily_broken(monkeypatch):
    lazy = types.ModuleType("transformers")

    def missing(name):
        raise RuntimeError(f"failed to import {name}")

    lazy.__getattr__ = missing
    monkeypatch.setitem(sys.modules, "transformers", lazy)
    with pytest.raises(ImportError, match="failed to import AutoConfig"):
        build(BackboneSettings(name="transformers:some-model"), (3, 8, 8))
