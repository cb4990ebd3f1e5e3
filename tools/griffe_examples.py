"""A griffe extension: sections called ``Example:`` are read as examples, not as admonitions."""

import re
from typing import Any

from griffe import Extension, Object

_HEADING = re.compile(r"^Example:$", re.MULTILINE)


class ExampleSections(Extension):
    """Renames the heading ``Example:`` to ``Examples:``, which griffe's Google parser knows."""

    def on_object(self, *, obj: Object, **_: Any) -> None:  # noqa: ANN401
        """Change the docstring of each object as it is loaded."""
        if obj.docstring is not None:
            obj.docstring.value = _HEADING.sub("Examples:", obj.docstring.value)
