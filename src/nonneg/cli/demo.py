"""``nonneg demo``: CL and NCL on embedded data, side by side, in about a minute."""

from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path
from typing import Annotated

import torch
import typer
from rich.console import Console
from rich.table import Table

from nonneg.encoder import Encoder
from nonneg.evaluation.figure import Figure
from nonneg.evaluation.readability import Summary, summary
from nonneg.io import write_json
from nonneg.runs.experiment import Experiment, load_split, read_experiment, run_experiment


def demo(
    out: Annotated[Path, typer.Option(help="Where runs, table, picture and atlas go.")] = Path(
        "demo"
    ),
) -> None:
    """Train CL and NCL on scikit-learn's digits with the same seed, compare them, show them.

    Runs that are already there are not trained again.

    Example: nonneg demo --out demo
    """
    console = Console()
    # Images of 8×8 pixels gain nothing from a second thread, and lose much on a busy machine.
    torch.set_num_threads(1)
    _, ncl = read_experiment("digits")
    experiments = {"CL": ncl.signed(), "NCL": ncl}
    for method, experiment in experiments.items():
        console.rule(f"{method}: transform = {experiment.encoder.nonnegative}", align="left")
        result = run_experiment(experiment, out=_folder(out, method), resume=True, console=console)
        if result.interrupted_by:
            raise typer.Exit(1)
    summaries = {
        method: _measured(_folder(out, method), experiment)
        for method, experiment in experiments.items()
    }
    console.print(_table(summaries))
    write_json(out / "summary.json", {method: asdict(s) for method, s in summaries.items()})
    _write_montage(out, ncl)
    console.print(
        f"the strongest samples of the main features: {out / 'features.png'}", soft_wrap=True
    )
    _write_atlas(out, summaries)
    console.print(f"all features, in a browser: {out / 'atlas.html'}", soft_wrap=True)


def _folder(out: Path, method: str) -> Path:
    return out / f"digits-{method.lower()}"


def _measured(folder: Path, experiment: Experiment) -> Summary:
    train, test = (load_split(experiment.data, split) for split in ("train", "test"))
    return summary(Encoder.load(folder), train, test)


def _write_montage(out: Path, experiment: Experiment) -> None:
    # Imported on use: matplotlib is slow.
    from nonneg.report.figures import montage, save_figure

    test = load_split(experiment.data, "test")
    features = {
        method: Encoder.load(_folder(out, method)).encode(test).features for method in ("CL", "NCL")
    }
    images = test.fetch(torch.arange(len(test)))
    save_figure(montage(images, features), out / "features.png")


def _write_atlas(out: Path, summaries: dict[str, Summary]) -> None:
    from nonneg.report.assembly import atlas_of
    from nonneg.report.writing import write_atlas

    atlas = atlas_of(_folder(out, "NCL"), against=_folder(out, "CL"))
    accuracies = {
        method: {
            "probe_hidden": Figure(s.probe_accuracy, higher_is_better=True, is_rate=True),
            "knn_features": Figure(s.knn_accuracy, higher_is_better=True, is_rate=True),
        }
        for method, s in summaries.items()
    }
    # The notes ask for an evaluation; its accuracies are here.
    run_info = replace(atlas.run_info, figures=accuracies, notes=())
    write_atlas(out / "atlas.html", replace(atlas, run_info=run_info))


def _table(summaries: dict[str, Summary]) -> Table:
    table = Table(title="digits, test set", title_justify="left")
    table.add_column("")
    for method in summaries:
        table.add_column(method, justify="right")
    for name, text in _ROWS:
        table.add_row(name, *(text(s) for s in summaries.values()))
    return table


_ROWS: tuple[tuple[str, Callable[[Summary], str]], ...] = (
    ("sparsity (share of zeros)", lambda s: f"{s.sparsity:.1%}"),
    ("alive features", lambda s: f"{s.alive_features} of {s.n_features}"),
    ("class consistency (≥ 20 active)", lambda s: f"{s.consistency:.3f}"),
    ("  with permuted labels", lambda s: f"{s.consistency_null:.3f}"),
    ("  features with ≥ 20 active samples", lambda s: f"{s.n_measured}"),
    ("purity of the top 20 samples", lambda s: f"{s.top_purity:.3f}"),
    ("  with permuted labels", lambda s: f"{s.top_purity_null:.3f}"),
    ("20-NN accuracy (features)", lambda s: f"{s.knn_accuracy:.1%}"),
    ("linear probe (hidden)", lambda s: f"{s.probe_accuracy:.1%}"),
)
