"""Whole experiments: presets, and what is built from their settings."""

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

__all__ = [
    "DataSettings",
    "Experiment",
    "Preset",
    "build_encoder",
    "build_pairs",
    "load_split",
    "presets",
    "read_experiment",
    "run_experiment",
    "training_data",
]
