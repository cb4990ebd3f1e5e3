"""Inputs as large as people have: how much memory and time they take."""

import json
import subprocess
import sys
import textwrap
import time

import numpy as np

from faults.page import CHROMIUM, browser
from nonneg.data.folder import ImageFolder

GIB = 1 << 30


def peak_of(code, *arguments, **named):
    """What Python code says at its end as JSON, and the most memory that its process held."""
    ending = "\nimport json, resource\nprint(json.dumps([found, most]))\n"
    most = "\nmost = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024"
    code = "import resource\n" + textwrap.dedent(code) + most + ending
    ended = subprocess.run(
        [sys.executable, "-c", code, *map(str, arguments)], capture_output=True, text=True, **named
    )
    assert ended.returncode == 0, ended.stderr
    return json.loads(ended.stdout.splitlines()[-1])


def seconds_to_list(root, n):
    """How long it takes to list a new folder of n images in 20 classes; only names are read."""
    for number in range(20):
        (root / f"class{number:02d}").mkdir(parents=True)
    for number in range(n):
        (root / f"class{number % 20:02d}" / f"{number:06d}.jpg").touch()
    began = time.perf_counter()
    folder = ImageFolder(root)
    assert (len(folder), len(folder.class_names)) == (n, 20)
    return time.perf_counter() - began


MEASURING = """
    import numpy as np, torch
    from nonneg import metrics

    n, d = 200_000, 2_048
    generator = np.random.default_rng(0)
    Z = np.zeros((n, d), dtype=np.float32)
    for start in range(0, n, 10_000):
        rows = np.arange(start, start + 10_000)[:, None]
        on = generator.integers(0, d, (10_000, 30))
        Z[rows, on] = generator.exponential(size=on.shape)
    y = torch.from_numpy(generator.integers(0, 100, n))
    found = {
        "sparsity": float(metrics.sparsity(Z)),
        "active": float(metrics.active_per_sample(Z)),
        "consistency": float(metrics.class_consistency(Z, y)),
        "purity": float(metrics.top_purity(Z, y, m=20)),
        "activation": float(metrics.expected_activation(Z).value),
        "alive": int(metrics.alive_features(Z).sum()),
        "correlation": float(metrics.feature_correlation(Z)),
        "rank": float(metrics.effective_rank(Z)),
    }
"""


def memory_of_measuring():
    """Of features 200,000 × 2,048: all that compares no sample with every other one."""
    found, most = peak_of(MEASURING)
    assert found["alive"] == 2_048
    assert 29 < found["active"] <= 30
    return most


_REPORT = """
    import sys
    sys.argv = ["nonneg", "report", "Z.npz", "--out", "atlas.html", "--samples", "50000"]
    from nonneg.cli import main
    try:
        main()
    except SystemExit as end:
        found = end.code or 0
"""


def memory_of_an_atlas(folder):
    """Of 50,000 samples, all of them shown; it is ``atlas.html`` in the folder."""
    generator = np.random.default_rng(0)
    n, d, k = 50_000, 512, 12
    kinds = generator.integers(0, d, (40, k))
    kind = generator.integers(0, 40, n)
    Z = np.zeros((n, d), dtype=np.float32)
    Z[np.arange(n)[:, None], kinds[kind]] = generator.exponential(size=(n, k))
    np.savez_compressed(folder / "Z.npz", features=Z, labels=kind)
    code, most = peak_of(_REPORT, cwd=folder)
    assert code == 0
    return most


def seconds_to_open(path):
    """Until a page shows its title in a browser; None where there is no browser."""
    if CHROMIUM is None:
        return None
    with browser() as running:
        tab = running.new_page()
        began = time.perf_counter()
        tab.goto(path.as_uri())
        tab.wait_for_selector("h1")
        return time.perf_counter() - began
