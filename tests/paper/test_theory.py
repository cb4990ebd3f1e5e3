"""All studies together, and the command that runs them."""

import json

import numpy as np
import pytest
from rich.console import Console

from nonneg.cli import theory as command
from nonneg.factorization.comparison import METHODS, Outcome
from nonneg.paper import theory as studies
from nonneg.paper import theory_results
from nonneg.paper.theory_results import solver_table


@pytest.fixture(scope="module")
def small():
    patch = pytest.MonkeyPatch()
    patch.setattr(studies, "BLURS", (0.0, 0.5))
    patch.setattr(studies, "WIDTHS", (3, 5))
    patch.setattr(studies, "SIZES", (40, 60))
    patch.setattr(studies, "N_SAMPLES", 40)
    patch.setattr(studies, "START_SEEDS", range(2))
    patch.setattr(theory_results, "WIDTHS", (3, 5))
    patch.setattr(theory_results, "SIZES", (40, 60))
    quick = {name: METHODS[name] for name in ("eigenvectors (CL)", "NCL, table, projected")}
    patch.setattr(studies, "METHODS", quick)
    patch.setattr(studies, "held_out_score", lambda world, seed: (1.0, 0.5))
    patch.setattr(studies, "GROWN", ("eigenvectors (CL)", "NMF, projected gradient"))
    patch.setattr(theory_results, "GROWN", ("eigenvectors (CL)", "NMF, projected gradient"))
    yield patch
    patch.undo()


def test_the_command_writes_figures_and_numbers(small, tmp_path, capsys):
    with small.context() as patch:
        patch.setattr(command, "Console", lambda: Console(width=200))
        command.theory(out=tmp_path / "found", seeds=2)
    names = sorted(path.name for path in (tmp_path / "found").iterdir())
    assert names == [
        "theory-anchors.png",
        "theory-growth.png",
        "theory-posterior.png",
        "theory-rotation.png",
        "theory-width.png",
        "theory.json",
    ]
    printed = capsys.readouterr().out
    assert "overlap: 40 samples, 5 classes, mean ± std of 2 seeds" in printed
    assert "rotation by 90°" in printed
    assert "from one start in 2 of 2" in printed
    record = json.loads((tmp_path / "found" / "theory.json").read_text())
    assert record["seeds"] == [0, 1]
    assert [row["n_features"] for row in record["widths"]] == [3, 5]
    assert len(record["solvers"]["overlap"]) == 2 * 2
    assert all((tmp_path / "found" / name).stat().st_size < 60_000 for name in names[:-1])


def outcome(cosine=1.0):
    return Outcome("CL", 40, 0.0, 1.0, 1.0, cosine, 1.0, 0.0, 5)


def test_one_seed_has_no_spread():
    table = solver_table("overlap", [outcome()], 1)
    assert table.title == "overlap: 40 samples, 5 classes, one seed"
    assert "±" not in "".join(cell for column in table.columns for cell in column.cells)
    both = solver_table("overlap", [outcome(), outcome(cosine=0.8)], 2)
    assert list(both.columns[4].cells) == ["0.9000 ± 0.1000"]


def test_progress_is_told_as_often_as_promised(small):
    told = []
    small.setattr(studies, "digits_study", lambda seed: None)
    small.setattr(studies, "METHODS", {"eigenvectors (CL)": None})
    found = studies.theory([3], progress=lambda: told.append(1))
    assert len(told) == studies.n_parts(1)
    assert found.held_out == [(1.0, 0.5)]
    cosines = studies.over_seeds(found.solvers["overlap"], "eigenvectors (CL)", "cosine")
    assert cosines.shape == (1,)
    assert np.isfinite(cosines).all()
    with pytest.raises(ValueError, match=r"^no seeds; give at least one$"):
        studies.theory([])
