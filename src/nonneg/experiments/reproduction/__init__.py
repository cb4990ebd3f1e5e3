"""The paper's tables, filled with runs made here."""

from nonneg.experiments.reproduction.early_stage import Curve
from nonneg.experiments.reproduction.filling import Filled, filled, n_runs, table_title
from nonneg.experiments.reproduction.laboratory import Laboratory
from nonneg.experiments.reproduction.plan import Arm, Grid, Plan
from nonneg.experiments.reproduction.tables import PLANS
from nonneg.experiments.reproduction.writing import check_place, markdown, write_table

__all__ = [
    "PLANS",
    "Arm",
    "Curve",
    "Filled",
    "Grid",
    "Laboratory",
    "Plan",
    "check_place",
    "filled",
    "markdown",
    "n_runs",
    "table_title",
    "write_table",
]
