"""The Python of the README runs, block after block, as a reader would paste it."""

import os
import re
from pathlib import Path

import pytest

README = Path(__file__).parent.parent / "README.md"


def test_readme_blocks_run(tmp_path, monkeypatch, capsys):
    blocks = re.findall(r"```python\n(.*?)```", README.read_text(), flags=re.S)
    assert len(blocks) >= 3
    monkeypatch.chdir(tmp_path)
    names = {}
    for block in blocks:
        exec(compile(block, "README.md", "exec"), names)
    assert names["features"].shape == (512, 1024)
    assert names["features"].min() >= 0
    assert 0 < names["found"].value <= 1
    assert capsys.readouterr().out


def test_readme_links_exist():
    for target in re.findall(r"\]\(([^)#]+)\)", README.read_text()):
        if not target.startswith("http"):
            assert (README.parent / target).exists(), target


@pytest.mark.parametrize("command", ["demo", "test", "check", "bench", "clean"])
def test_make_targets_of_the_readme_exist(command):
    makefile = (README.parent / "Makefile").read_text()
    assert re.search(rf"^{command}:", makefile, flags=re.M)
    assert f"make {command}" in README.read_text()
    assert os.access(README.parent / ".ci" / "run", os.X_OK)
