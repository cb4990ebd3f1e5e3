"""The demo with a tiny experiment: two runs, a table, a picture and the atlas."""

import json
import re
from unittest.mock import patch

from nonneg.runs import read_experiment

QUICK = [
    "encoder.backbone.width=4",
    "encoder.projector.hidden=[16]",
    "encoder.projector.n_features=32",
    "training.epochs=2",
    "training.warmup_epochs=1",
]


def test_the_demo_ends_with_the_atlas_of_both_runs(nonneg, tmp_path):
    quick = read_experiment("digits", QUICK)
    with patch("nonneg.report.demo.read_experiment", lambda _: quick):
        ended = nonneg("demo", "--out", tmp_path / "demo")
    assert ended.returncode == 0, ended.stderr
    assert "consistency of frequent features (≥ 20 active)" in ended.stdout
    names = sorted(path.name for path in (tmp_path / "demo").iterdir())
    assert names == ["atlas.html", "digits-cl", "digits-ncl", "features.png", "summary.json"]
    assert ended.stdout.rstrip().endswith(f"in a browser: {tmp_path / 'demo' / 'atlas.html'}")
    text = (tmp_path / "demo" / "atlas.html").read_text(encoding="utf-8")
    content = json.loads(re.search(r'id="content">(.*?)</script>', text, re.DOTALL)[1])
    summary = json.loads((tmp_path / "demo" / "summary.json").read_text())
    figures = {row["key"]: row["cells"] for row in content["figures"]}
    for method in ("CL", "NCL"):
        run = tmp_path / "demo" / f"digits-{method.lower()}"
        evaluated = json.loads((run / "evaluation.json").read_text())
        for section, key in (("probe", "probe_hidden"), ("properties", "top20_purity")):
            found = evaluated["sections"][section]["figures"][key]
            assert summary[method][key] == found
            assert figures[key][method]["value"] == found["value"]
    assert not any("evaluate" in note for note in content["notes"])
