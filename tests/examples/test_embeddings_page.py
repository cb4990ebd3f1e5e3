"""The page about vectors: its Python runs, and its commands have the options that it names."""

import re
from pathlib import Path

PAGE = Path(__file__).parents[2] / "docs" / "embeddings.md"


def test_the_python_runs(capsys):
    names = {}
    for block in re.findall(r"```python\n(.*?)```", PAGE.read_text(), flags=re.S):
        exec(compile(block, PAGE.name, "exec"), names)
    assert names["Z"].shape == (1000, 64)
    assert names["Z"].min() >= 0
    strongest = names["ncl"].rank_[0]
    assert names["Z"][:, strongest].any()
    assert not names["without"][:, strongest].any()
    assert names["found"].numbers.shape == (3, 5)
    said = capsys.readouterr().out
    assert "cosine" in said
    both, images, texts = names["both"], names["images"], names["texts"]
    right = both.explain(images[0], texts[0]).cosine
    other = int((names["topics"] != names["topics"][0]).argmax())
    assert right > both.explain(images[0], texts[other]).cosine + 0.5
    assert sorted((names["communities"] > 0.1).sum(axis=0)) == [5, 7]


def test_options_of_the_commands_exist():
    from typer.main import get_command

    from nonneg.cli.main import app

    known = {
        option for c in get_command(app).commands.values() for p in c.params for option in p.opts
    }
    named = set(re.findall(r"--[a-z][a-z-]+", PAGE.read_text()))
    assert len(named) >= 8
    assert named <= known


def test_links_exist():
    for target in re.findall(r"\]\(([^)#]+)\)", PAGE.read_text()):
        assert (PAGE.parent / target).exists(), target
