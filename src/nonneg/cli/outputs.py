"""Names of figures, as commands show them."""

import re


def figure_name(key: str) -> str:
    """The name of a figure for a reader.

    Example:
        >>> figure_name("class_consistency_min20"), figure_name("sparsity")
        ('class consistency (≥ 20 active)', 'sparsity')
    """
    if key == "class_consistency":
        return "class consistency (all alive)"
    return re.sub(r"^class_consistency_min(\d+)$", r"class consistency (≥ \1 active)", key)
