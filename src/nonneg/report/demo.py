"""The demos: CL and NCL on embedded images side by side, and the features of embedded texts."""

from importlib.resources import as_file, files
from pathlib import Path

import torch
from rich.console import Console

from nonneg.evaluation.subject import EvaluationSettings
from nonneg.io import write_bytes, write_json
from nonneg.metrics.figures import Figures
from nonneg.report.assembly import atlas
from nonneg.report.figures import montage, save_figure
from nonneg.runs.evaluating import evaluate_run
from nonneg.runs.experiment import Experiment, load_split, read_experiment, run_experiment
from nonneg.runs.fitting import FittedRun, fit_run
from nonneg.runs.record import run_encoder
from nonneg.runs.text_fits import text_files
from nonneg.runs.vector_fits import vector_experiment

# What fills the table; the other sections take longer than training.
_SECTIONS = ("properties", "probe", "neighbours")
_SETTINGS = EvaluationSettings(probed=("hidden",))


def run_demo(out: str | Path = "demo", *, console: Console | None = None) -> dict[str, Figures]:
    """Train CL and NCL on scikit-learn's digits with one seed; gives the figures of both.

    The folder then holds both runs with their evaluations, their figures in ``summary.json``, the
    strongest samples of the main features in ``features.png``, and the atlas of both in
    ``atlas.html``. Runs that are already there are not trained again.

    Args:
        out: The folder.
        console: Where training shows its progress; None for nowhere.

    Returns:
        The figures of ``"CL"`` and of ``"NCL"``.

    Raises:
        InterruptedError: If training was interrupted; another call goes on.
    """
    out, console = Path(out), console or Console(quiet=True)
    _, ncl = read_experiment("digits")
    experiments = {"CL": ncl.signed(), "NCL": ncl}
    folders = {method: out / f"digits-{method.lower()}" for method in experiments}
    for method, experiment in experiments.items():
        console.rule(f"{method}: transform = {experiment.encoder.nonnegative}", align="left")
        result = run_experiment(experiment, out=folders[method], resume=True, console=console)
        if result.interrupted_by:
            raise InterruptedError(
                f"training was stopped by {result.interrupted_by}; the same command continues it"
            )
    figures = {
        method: evaluate_run(folder, only=_SECTIONS, settings=_SETTINGS).figures()
        for method, folder in folders.items()
    }
    plain = {
        method: {key: figure.as_json() for key, figure in found.items()}
        for method, found in figures.items()
    }
    write_json(out / "summary.json", plain)
    _write_montage(out / "features.png", folders, ncl)
    atlas(folders["NCL"], against=folders["CL"], out=out / "atlas.html")
    return figures


def run_text_demo(out: str | Path = "demo") -> FittedRun:
    """Fit 3,000 requests of CLINC150 that come with the package, with their vectors.

    The folder then holds the table, its vectors, and the run ``requests``, whose page is still to
    be written. A run that is already there is not fitted again.

    Args:
        out: The folder.
    """
    out = Path(out)
    for name in ("requests.csv", "vectors.npz"):
        with as_file(files("nonneg.data") / "clinc150" / name) as shipped:
            write_bytes(out / name, shipped.read_bytes())
    found = text_files(
        out / "requests.csv",
        out=out / "requests",
        text="text",
        label="intent",
        vectors=out / "vectors.npz",
    )
    experiment, machine = vector_experiment(found)
    return fit_run(experiment, out=out / "requests", machine=machine)


def _write_montage(path: Path, folders: dict[str, Path], experiment: Experiment) -> None:
    test = load_split(experiment.data, "test")
    features = {
        method: run_encoder(folder).encode(test).features for method, folder in folders.items()
    }
    save_figure(montage(test.fetch(torch.arange(len(test))), features), path)
