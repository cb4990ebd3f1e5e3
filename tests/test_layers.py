"""Imports point one way, and the method can be read in one sitting."""

import ast
from pathlib import Path

import nonneg

ROOT = Path(nonneg.__file__).parent

# Each part may import from the layers above its own line, and from itself.
LAYERS = [
    {"settings", "io", "inference", "rows", "run_lock"},
    {"metrics", "feature_file"},
    {"head", "backbones", "data"},
    {"losses", "pairs"},
    {"encoder", "telling_words"},
    {"training", "factorization"},
    {"evaluation", "estimators"},
    {"runs", "experiments"},
    {"report"},
    {"paper"},
    {"cli"},
]
LEVEL = {part: level for level, parts in enumerate(LAYERS) for part in parts}


def imported_parts(path):
    for node in ast.walk(ast.parse(path.read_text())):
        modules = []
        if isinstance(node, ast.Import):
            modules = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module == "nonneg":
            modules = [f"nonneg.{alias.name}" for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            modules = [node.module]
        yield from (m.split(".")[1] for m in modules if m.startswith("nonneg."))


def test_imports_point_down():
    wrong = []
    for path in ROOT.rglob("*.py"):
        part = path.relative_to(ROOT).parts[0].removesuffix(".py")
        if part in ("__init__", "__main__"):
            continue
        assert part in LEVEL, f"{part} has no layer"
        wrong += [
            f"{path.relative_to(ROOT)} imports {other}"
            for other in imported_parts(path)
            if other != part and LEVEL[other] >= LEVEL[part]
        ]
    assert wrong == []


def test_the_method_is_short():
    method = ["head/nonnegative.py", "losses/info_nce.py", "losses/spectral.py", "rows.py"]
    code = [line for name in method for line in code_lines(ROOT / name)]
    code += code_lines(ROOT / "encoder.py")
    assert len(code) < 450


def code_lines(path):
    """Lines that are neither blank nor comment nor docstring."""
    tree = ast.parse(path.read_text())
    texts = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            texts.update(range(node.lineno, node.end_lineno + 1))
    lines = enumerate(path.read_text().splitlines(), start=1)
    return [line for n, line in lines if line.strip() and n not in texts and line.strip()[0] != "#"]
