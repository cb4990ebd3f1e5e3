"""Runs: what a run folder is, how it is made, evaluated and compared."""

from nonneg.presets import Preset, presets
from nonneg.runs.comparing import Comparison, compare_runs
from nonneg.runs.drawn_rows import drawn_file
from nonneg.runs.embedding import Embedded, embed_run
from nonneg.runs.evaluating import EVALUATION_FILES, evaluate_run
from nonneg.runs.experiment import (
    DataSettings,
    Experiment,
    build_encoder,
    build_pairs,
    load_split,
    read_experiment,
    run_experiment,
    training_data,
)
from nonneg.runs.exporting import Exported, export_run
from nonneg.runs.fitting import FittedRun, fit_run
from nonneg.runs.fragment_embedding import EmbeddedFragments, Shard, embed_fragments
from nonneg.runs.indexing import IndexedRun, index_run
from nonneg.runs.record import RunRecord, is_fitted, read_run, run_data, run_encoder
from nonneg.runs.run_model import RunModel, arrow_features
from nonneg.runs.searching import (
    FoundSample,
    FoundSamples,
    RunSearch,
    search_run,
)
from nonneg.runs.text_fits import text_files
from nonneg.runs.vector_fits import VectorExperiment, VectorFiles, vector_experiment

__all__ = [
    "EVALUATION_FILES",
    "Comparison",
    "DataSettings",
    "Embedded",
    "EmbeddedFragments",
    "Experiment",
    "Exported",
    "FittedRun",
    "FoundSample",
    "FoundSamples",
    "IndexedRun",
    "Preset",
    "RunModel",
    "RunRecord",
    "RunSearch",
    "Shard",
    "VectorExperiment",
    "VectorFiles",
    "arrow_features",
    "build_encoder",
    "build_pairs",
    "compare_runs",
    "drawn_file",
    "embed_fragments",
    "embed_run",
    "evaluate_run",
    "export_run",
    "fit_run",
    "index_run",
    "is_fitted",
    "load_split",
    "presets",
    "read_experiment",
    "read_run",
    "run_data",
    "run_encoder",
    "run_experiment",
    "search_run",
    "text_files",
    "training_data",
    "vector_experiment",
]
