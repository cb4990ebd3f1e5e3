"""Whole experiments: presets, and what is built from their settings."""

from nonneg.experiments.comparing import Comparison, compare_runs
from nonneg.experiments.evaluating import EVALUATION_FILES, evaluate_run
from nonneg.experiments.experiment import (
    DataSettings,
    Experiment,
    build_encoder,
    build_pairs,
    load_split,
    run_experiment,
    training_data,
)
from nonneg.experiments.presets import Preset, presets, read_experiment
from nonneg.experiments.runs import RunRecord, read_run

__all__ = [
    "EVALUATION_FILES",
    "Comparison",
    "DataSettings",
    "Experiment",
    "Preset",
    "RunRecord",
    "build_encoder",
    "build_pairs",
    "compare_runs",
    "evaluate_run",
    "load_split",
    "presets",
    "read_experiment",
    "read_run",
    "run_experiment",
    "training_data",
]
