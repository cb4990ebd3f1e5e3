"""How is an optional package imported? On use, with a sentence that says how to get it."""

import importlib
from typing import Any


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
