"""The architecture: imports point one way, files are few and of one concept, calls stay short."""

import ast
import sys
from collections import Counter, defaultdict
from pathlib import Path

import numpy as np
import pytest

import nonneg
import nonneg.training.contrastive
from nonneg.runs import evaluate_run, read_experiment, run_experiment

ROOT = Path(nonneg.__file__).parent

# Each part may import from the layers above its own line, and from itself.
LAYERS = [
    {"untrusted"},
    {"settings", "io", "inference", "pretrained", "rows"},
    {"metrics", "presets"},
    {"head", "backbones", "data"},
    {"losses", "pairs"},
    {"encoder"},
    {"training", "factorization"},
    {"evaluation", "estimators", "texts"},
    {"search"},
    {"interchange"},
    {"runs"},
    {"report"},
    {"paper"},
    {"serve"},
    {"cli"},
]
LEVEL = {part: level for level, parts in enumerate(LAYERS) for part in parts}

MAX_FILES = 225
MAX_LINES = 450
MAX_IMPORTED_ONCE = 30
MAX_OF_ONE_NAME = 2


def module_of(path):
    name = ".".join(("nonneg", *path.relative_to(ROOT).with_suffix("").parts))
    return name.removesuffix(".__init__")


MODULES = {module_of(path): path for path in sorted(ROOT.rglob("*.py"))}


def imported_modules(path):
    """Modules of the package that a file names in its imports, wherever in it these stand."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name in MODULES)
        elif isinstance(node, ast.ImportFrom) and node.module in MODULES:
            for alias in node.names:
                inner = f"{node.module}.{alias.name}"
                yield inner if inner in MODULES else node.module


def test_imports_point_down():
    wrong = []
    for path in MODULES.values():
        part = path.relative_to(ROOT).parts[0].removesuffix(".py")
        if part in ("__init__", "__main__"):
            continue
        assert part in LEVEL, f"{part} has no layer"
        others = {module.split(".")[1] for module in imported_modules(path) if "." in module}
        wrong += [
            f"{path.relative_to(ROOT)} imports {other}"
            for other in others
            if other != part and LEVEL[other] >= LEVEL[part]
        ]
    assert wrong == []


def test_files_are_few():
    assert len(MODULES) <= MAX_FILES


def test_files_are_short():
    lines = {str(path.relative_to(ROOT)): path.read_text().count("\n") for path in MODULES.values()}
    assert {name: n for name, n in lines.items() if n > MAX_LINES} == {}


def test_a_file_name_means_one_thing():
    """But for the fronts of packages."""
    names = Counter(path.stem for path in MODULES.values() if path.stem != "__init__")
    assert {name: n for name, n in names.items() if n > MAX_OF_ONE_NAME} == {}


def test_few_files_are_imported_by_one_other_only():
    """Such a file is usually a part of the other; commands and the fronts of packages aside."""
    importers = defaultdict(set)
    for module, path in MODULES.items():
        for other in imported_modules(path):
            importers[other].add(module)
    once = [
        module
        for module, path in MODULES.items()
        if len(importers[module]) == 1
        and path.stem != "__init__"
        and not module.startswith("nonneg.cli.")
    ]
    assert len(once) <= MAX_IMPORTED_ONCE, once


def modules_passed(call):
    """Modules of the package whose code runs during a call."""
    passed = set()

    def note(frame, event, _):
        name = frame.f_globals.get("__name__", "")
        if event == "call" and name in MODULES and frame.f_code.co_name != "<module>":
            passed.add(name)

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        call()
    finally:
        sys.setprofile(before)
    return sorted(passed)


def test_a_fit_passes_few_modules():
    X = np.random.default_rng(0).normal(size=(300, 20))
    ncl = nonneg.NCL(n_components=32, max_steps=20, random_state=0)
    passed = modules_passed(lambda: ncl.fit(X))
    assert len(passed) <= 24, passed


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("digits") / "run"
    changes = ["training.epochs=1", "training.warmup_epochs=0", "encoder.backbone.width=4"]
    _, experiment = read_experiment("digits", changes)
    steps = []
    learn = nonneg.training.contrastive.Contrastive.learn

    def first_step(task, batch, engine):
        """The modules of one whole step: views, network, loss, gradients."""
        if steps:
            return learn(task, batch, engine)
        found = []
        steps.append(modules_passed(lambda: found.append(learn(task, batch, engine))))
        return found[0]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(nonneg.training.contrastive.Contrastive, "learn", first_step)
        run_experiment(experiment, out=folder)
    return folder, steps[0]


def test_a_step_of_training_passes_few_modules(run):
    assert len(run[1]) <= 35, run[1]


def test_an_evaluation_passes_few_modules(run):
    only = ["properties", "probe", "neighbours"]
    passed = modules_passed(lambda: evaluate_run(run[0], only=only))
    assert len(passed) <= 37, passed


def test_the_method_is_short():
    method = ["head/nonnegative.py", "losses/info_nce.py", "losses/spectral.py", "encoder.py"]
    assert sum(len(code_lines(ROOT / name)) for name in method) < 490


def code_lines(path):
    """Lines that are neither blank nor comment nor docstring."""
    tree = ast.parse(path.read_text())
    texts = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            texts.update(range(node.lineno, node.end_lineno + 1))
    lines = enumerate(path.read_text().splitlines(), start=1)
    return [line for n, line in lines if line.strip() and n not in texts and line.strip()[0] != "#"]
