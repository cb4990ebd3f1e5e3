"""The paper's tables and studies, filled with our own runs."""

from nonneg.paper.filling import Curve, Filled, RunStore, filled, n_runs, table_title
from nonneg.paper.tables import PLANS, Arm, Grid, Plan
from nonneg.paper.writing import check_place, markdown, write_table

__all__ = [
    "PLANS",
    "Arm",
    "Curve",
    "Filled",
    "Grid",
    "Plan",
    "RunStore",
    "check_place",
    "filled",
    "markdown",
    "n_runs",
    "table_title",
    "write_table",
]
