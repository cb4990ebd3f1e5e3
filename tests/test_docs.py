"""What people read is true: its Python runs, its links, commands, settings and files exist."""

import json
import os
import re
import runpy
import shutil
import sys
import tomllib
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest
from pages import PAGES, ROOT, blocks, python_of, run, text_of
from typer.main import get_command

from nonneg.cli.main import app
from nonneg.evaluation import EvaluationSettings
from nonneg.evaluation.corruptions import CORRUPTIONS
from nonneg.runs import read_experiment
from nonneg.settings import explained

site = runpy.run_path(str(ROOT / "tools" / "docs_site.py"))

# Their results are looked at by tests of their own.
CHECKED = {
    "README.md",
    "docs/atlas.md",
    "docs/export.md",
    "docs/graphs.md",
    "docs/modalities.md",
    "docs/scale.md",
    "docs/vectors.md",
}
RUNNABLE = [page for page in PAGES if python_of(page)]


@pytest.mark.parametrize("page", [page for page in RUNNABLE if page not in CHECKED])
def test_python_runs(page, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    run(page)


def test_python_of_the_readme(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    names = run("README.md")
    assert 400 < names["Z"].shape[1] < 600
    assert names["Z"].min() >= 0
    assert names["purity"].value > 2 * names["purity"].null
    assert names["loss"] > 0
    assert capsys.readouterr().out.startswith("cosine 0.")


def rounded(said):
    """Which feature it is, and the last digits of its part, differ between machines."""
    said = re.sub(r"feature \d+", "feature", said)
    return re.sub(r"\d\.\d+", lambda number: f"{float(number[0]):.1f}", said)


def test_python_of_the_page_about_vectors(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    names = run("docs/vectors.md")
    assert 20 <= names["Z"].shape[1] <= 30
    strongest = names["ncl"].rank_[0]
    assert names["Z"][:, strongest].any()
    assert not names["without"][:, strongest].any()
    assert names["found"].numbers.shape == (3, 5)
    assert names["is_new"][~names["known"]].all()
    assert names["is_new"][names["known"]].mean() < 0.1
    appended = names["Z_grown"][:, names["n_before"] :] > 0
    np.testing.assert_array_equal(appended.any(axis=1), ~names["known"])
    (shown,) = [block for block in blocks("docs/vectors.md") if block.startswith("cosine")]
    assert rounded(capsys.readouterr().out).startswith(rounded(shown))


def test_python_of_the_page_about_two_modalities(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    names = run("docs/modalities.md")
    both, images, texts = names["both"], names["images"], names["texts"]
    right = both.explain(images[0], texts[0]).cosine
    other = int((names["topics"] != names["topics"][0]).argmax())
    assert right > both.explain(images[0], texts[other]).cosine + 0.5


def test_python_of_the_page_about_graphs(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert sorted((run("docs/graphs.md")["communities"] > 0.1).sum(axis=0)) == [5, 7]


def test_python_of_the_page_about_the_atlas(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    names = run("docs/atlas.md")
    assert names["Z_images"].shape == (200, 256)
    assert np.load("captions.npz")["caption_of"].shape == (1000,)
    assert (tmp_path / "atlas.html").exists()


def test_python_of_the_page_about_other_programs(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    run("docs/export.md")
    shown = [block for block in blocks("docs/export.md") if block.startswith(("{'1'", "3 {"))]
    assert len(shown) == 2
    assert capsys.readouterr().out.split() == "".join(shown).split()


def test_python_of_the_page_about_scale(tmp_path, monkeypatch):
    pytest.importorskip("pyarrow", reason="pyarrow is absent")
    monkeypatch.chdir(tmp_path)
    names = run("docs/scale.md")
    Z = names["Z"].toarray()
    assert names["ids"].tolist() == list(range(800))
    assert len({tuple(row.nonzero()[0]) for row in Z[::100]}) == 8
    assert names["in_order"].column("indices") == names["table"].column("indices")
    assert names["by_key"].column("id").to_pylist()[0] == "row 600"


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("engine", ["datasets", "pyspark", "ray"])
def test_engines_of_the_page_about_scale(engine, tmp_path, monkeypatch):
    pytest.importorskip("pyarrow", reason="pyarrow is absent")
    pytest.importorskip(engine, reason=f"{engine} is absent")
    if engine == "pyspark" and shutil.which("java") is None:
        pytest.skip("Spark needs Java, which is absent")
    monkeypatch.chdir(tmp_path)
    for name, value in {
        "PYSPARK_PYTHON": sys.executable,
        "PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "HF_HUB_OFFLINE": "1",
        "RAY_USAGE_STATS_ENABLED": "0",
        "HF_HOME": str(tmp_path),
    }.items():
        monkeypatch.setenv(name, value)
    names = run("docs/scale.md")
    (block,) = [block for block in blocks("docs/scale.md", "py") if f"# {engine}\n" in block]
    exec(compile(block, engine, "exec"), names)
    if engine == "pyspark":
        names["spark"].stop()
    if engine == "ray":
        names["ray"].shutdown()
    written = {"pyspark": "from-spark", "ray": "from-ray"}.get(engine)
    found = (
        names["pq"].read_table(tmp_path / written) if written else names["mapped"].data.table
    ).to_pylist()
    expected = [
        names["features"](names["pq"].read_table(path)) for path in sorted(Path("in").iterdir())
    ]
    rows = {row["id"]: row["indices"] for table in expected for row in table.to_pylist()}
    assert {row["id"]: row["indices"] for row in found} == rows
    assert len(rows) == 800


@pytest.mark.parametrize("page", PAGES)
def test_links_exist(page):
    folder = (ROOT / page).parent
    for target in re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", text_of(page)):
        if not target.startswith("http") and target != site["ATLAS"]:
            assert (folder / target).exists(), target


OPTIONS = {
    name: {option for parameter in command.params for option in parameter.opts}
    for name, command in get_command(app).commands.items()
}


@pytest.mark.parametrize("page", [page for page in PAGES if "history" not in page])
def test_commands_and_their_options_exist(page):
    commands = "\n".join([*blocks(page), *re.findall(r"`(nonneg [^`]*)`", text_of(page))])
    for line in commands.splitlines():
        for command in re.findall(r"\bnonneg ([a-z][a-z-]+(?: [^#&|]*)?)", line.split(" #")[0]):
            name, *words = command.split()
            assert name in OPTIONS, line
            named = {word.partition("=")[0] for word in words if word.startswith("--")}
            assert named <= OPTIONS[name] | {"--help"}, line


def test_the_readme_is_short_and_starts_with_running_code():
    readme = text_of("README.md")
    assert len(readme.splitlines()) <= 120
    first = readme[: readme.index("NCL(")]
    prose = re.sub(r"!\[.*?\]\(.*?\)|```\w*", "", first)
    assert len(prose.split()) <= 60
    assert len(python_of("README.md")[0].strip().splitlines()) <= 7


def test_make_targets_that_are_named_exist():
    makefile = text_of("Makefile")
    for page in PAGES:
        for target in re.findall(r"\bmake ([a-z][a-z-]+)\b", "\n".join(blocks(page))):
            assert re.search(rf"^{target}:", makefile, flags=re.MULTILINE), (page, target)


def test_files_named_in_the_contributing_guide_exist():
    named = re.findall(
        r"`((?:src|tests|docs|tools|benchmarks)/[\w./-]+)`", text_of("CONTRIBUTING.md")
    )
    assert len(named) >= 10
    for path in named:
        assert (ROOT / path).exists(), path


def test_the_citation_has_the_version_of_the_package():
    version = tomllib.loads(text_of("pyproject.toml"))["project"]["version"]
    assert f"\nversion: {version}\n" in text_of("CITATION.cff")


def test_the_lowest_versions_are_those_that_are_tested():
    project = tomllib.loads(text_of("pyproject.toml"))["project"]
    tested = dict(re.findall(r"^([\w-]+)==([\d.]+)$", text_of("constraints-lowest.txt"), re.M))
    for dependency in project["dependencies"]:
        name, lowest = dependency.split(">=")
        assert (tested[name] + ".").startswith(lowest + "."), dependency


def test_settings_of_the_page_about_images(tmp_path):
    """Those of photographs can be read, and the others are the digits preset."""
    read = {}
    for number, block in enumerate(blocks("docs/images.md", "toml")):
        path = tmp_path / f"shown{number}.toml"
        path.write_text(block)
        experiment = read_experiment(str(path))[1]
        read[experiment.data.name] = experiment
    assert set(read) == {"photos", "digits"}
    assert read["digits"] == read_experiment("digits")[1]


def test_the_evaluation_page_has_every_setting():
    rows = dict(re.findall(r"^\| `([\w.]+)` \| (.*?) \|", text_of("docs/evaluation.md"), re.M))
    for key, value, _ in explained(EvaluationSettings()):
        assert rows[key] == ("all" if value is None else json.dumps(value)), key


def test_the_evaluation_page_names_every_corruption():
    place = text_of("docs/evaluation.md").split("- **Robustness.**")[1].split("\n- ")[0]
    assert set(CORRUPTIONS) <= set(re.findall(r"`(\w+)`", place))


def test_source_code_that_pages_show_exists():
    names = re.findall(r"<!-- source: ([\w.]+) -->", text_of("docs/method.md"))
    assert len(names) >= 5
    for name in names:
        source = site["source_of"](name)
        assert source.split("(")[0].endswith(name.rpartition(".")[2]), name
        assert '"""' not in source


def test_objects_of_the_api_pages_exist():
    named = [n for page in PAGES for n in re.findall(r"^::: ([\w.]+)$", text_of(page), re.M)]
    assert "nonneg.metrics" in named
    for name in named:
        package, _, last = name.rpartition(".")
        assert hasattr(import_module(package), last) or import_module(name), name


def test_links_of_the_site():
    link = site["site_link"]
    assert link("docs/theory.md", "../RESULTS.md#claims") == "project/RESULTS.md#claims"
    assert link("RESULTS.md", "docs/metrics.md") == "../metrics.md"
    assert link("docs/history/results.md", "recipe.md") == "recipe.md"
    assert link("docs/index.md", "https://arxiv.org/abs/2403.12459").startswith("https")
    assert link("docs/method.md", "../src/nonneg/encoder.py") is None
