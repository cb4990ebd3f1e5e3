"""The page about vectors: its Python runs, and its commands have the options that it names."""

import re
from pathlib import Path

PAGE = Path(__file__).parents[2] / "docs" / "embeddings.md"
SHOWN = re.compile(r"```\n(cosine .*?)```", flags=re.S)


def rounded(said):
    """Which feature it is, and the last digits of its part, differ between machines."""
    said = re.sub(r"feature \d+", "feature", said)
    return re.sub(r"\d\.\d+", lambda number: f"{float(number[0]):.1f}", said)


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
    shown = SHOWN.search(PAGE.read_text()).group(1)
    assert rounded(capsys.readouterr().out).startswith(rounded(shown))
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
