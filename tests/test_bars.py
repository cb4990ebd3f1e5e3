"""The bars of RESULTS.md are computed from the tables, seed by seed."""

import json
import runpy
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
bars = runpy.run_path(str(ROOT / "benchmarks" / "bars.py"))

CL = {"sparsity_alive": 0.0, "alive_rate": 1.0, "top20_purity": 0.5, "sepin_1": 0.01}
CL |= {"probe_hidden": 0.8, "precision_features": 0.7, "robust_corruption": 0.6}
CL |= {"robust_sketch": 0.5, "robust_stylised": 0.4, "selection_retrieval_all": 0.7}
CL |= {"selection_retrieval_0.25_ea_rectified": 0.6}
NCL = CL | {"sparsity_alive": 0.96, "alive_rate": 0.4, "top20_purity": 0.75, "sepin_1": 0.05}
NCL |= {"probe_hidden": 0.79, "precision_features": 0.71}
NCL |= {"selection_retrieval_0.25_ea_rectified": 0.695}


def _written(folder, seeds=("0", "1"), ncl=NCL):
    for name in bars["TABLES"]:
        arms = {
            arm: {
                "settings": {"seedless": True},
                "figures": {s: {k: {"value": v} for k, v in values.items()} for s in seeds},
            }
            for arm, values in (("CL", CL), ("NCL", ncl))
        }
        (folder / f"{name}-fashion-mnist.json").write_text(json.dumps({"arms": arms}))


def test_every_bar_is_measured_and_those_missed_are_bold(tmp_path):
    _written(tmp_path)
    lines = bars["table"](tmp_path).splitlines()
    rows = {line.split(" | ")[0].strip("| "): line for line in lines if line.startswith("| ")}
    assert len(rows) == 1 + len(bars["BARS"])
    expected = {
        "sparsity over alive features": "96.00 ± 0.00 %",
        "alive features": "**40.00 ± 0.00 %**",
        "impurity (1 − top-20 purity), as a multiple of CL's": "0.50 ± 0.00 ×",
        "SEPIN@1, as a multiple of CL's": "5.00 ± 0.00 ×",
        "linear probe (hidden), NCL − CL": "**−1.00 ± 0.00**",
        "precision@10 (features), NCL − CL": "1.00 ± 0.00",
        "retrieval lost with a quarter of the alive features, by EA": "0.50 ± 0.00",
    }
    for text, cell in expected.items():
        assert rows[text].endswith(f"| {cell} |"), rows[text]
    assert "2 on fashion-mnist" in lines[-4] + lines[-3]


def test_bars_that_one_backbone_meets_are_said_to_be_so(tmp_path):
    said = "same backbone (fashion-mnist): its bars are met by construction"
    _written(tmp_path)
    assert said not in bars["table"](tmp_path)
    _written(tmp_path, ncl=NCL | {"probe_hidden": CL["probe_hidden"]})
    assert said in bars["table"](tmp_path)


def test_only_seeds_of_all_tables_count(tmp_path):
    _written(tmp_path, seeds=("0", "1", "2"))
    path = tmp_path / "transfer-fashion-mnist.json"
    table = json.loads(path.read_text())
    del table["arms"]["NCL"]["figures"]["1"]
    path.write_text(json.dumps(table))
    assert len(bars["paired_figures"](tmp_path, "fashion-mnist")) == 2


def test_tables_of_different_runs_are_not_mixed(tmp_path):
    _written(tmp_path)
    path = tmp_path / "selection-fashion-mnist.json"
    path.write_text(path.read_text().replace("true", "false"))
    with pytest.raises(ValueError, match="selection-fashion-mnist is of other CL runs"):
        bars["paired_figures"](tmp_path, "fashion-mnist")


def test_the_page_shows_the_bars_of_its_tables():
    folder = ROOT / "results"
    assert (folder / "bars.md").read_text() == bars["table"](folder)
