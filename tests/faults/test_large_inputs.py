"""Inputs as large as people have: memory and time stay within what a laptop has."""

import json
import subprocess
import sys
import textwrap
import time

import numpy as np
import pytest
from faults import page

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


def test_a_folder_of_many_images_is_listed_in_seconds(tmp_path):
    """2,000 here; 100,000 in the slow form. Only names are read."""
    assert _seconds_to_list(tmp_path, 2_000) < 1


@pytest.mark.slow
def test_a_folder_of_100_000_images_is_listed_in_seconds(tmp_path):
    assert _seconds_to_list(tmp_path, 100_000) < 10


def _seconds_to_list(root, n):
    for number in range(20):
        (root / f"class{number:02d}").mkdir()
    for number in range(n):
        (root / f"class{number % 20:02d}" / f"{number:06d}.jpg").touch()
    began = time.perf_counter()
    folder = ImageFolder(root)
    assert (len(folder), len(folder.class_names)) == (n, 20)
    return time.perf_counter() - began


@pytest.mark.slow
def test_features_of_200_000_by_2_048_are_measured_within_8_gib():
    """All that needs no comparison of every sample with every other one."""
    code = """
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
    found, most = peak_of(code)
    assert found["alive"] == 2_048
    assert 29 < found["active"] <= 30
    assert most < 8 * GIB


@pytest.mark.slow
def test_an_atlas_of_50_000_samples_takes_2_gib_and_opens_in_3_seconds(tmp_path):
    generator = np.random.default_rng(0)
    n, d, k = 50_000, 512, 12
    kinds = generator.integers(0, d, (40, k))
    kind = generator.integers(0, 40, n)
    Z = np.zeros((n, d), dtype=np.float32)
    Z[np.arange(n)[:, None], kinds[kind]] = generator.exponential(size=(n, k))
    np.savez_compressed(tmp_path / "Z.npz", features=Z, labels=kind)
    code = """
        import sys
        sys.argv = ["nonneg", "report", "Z.npz", "--out", "atlas.html", "--samples", "50000"]
        from nonneg.cli import main
        try:
            main()
        except SystemExit as end:
            found = end.code or 0
    """
    code_of_exit, most = peak_of(code, cwd=tmp_path)
    assert code_of_exit == 0
    assert most < 2 * GIB
    pytest.importorskip("playwright.sync_api", reason="playwright is in the dev extra")
    if page.CHROMIUM is None:
        pytest.skip("no Chromium is installed")
    with page.browser() as running:
        tab = running.new_page()
        began = time.perf_counter()
        tab.goto((tmp_path / "atlas.html").as_uri())
        tab.wait_for_selector("h1")
        assert time.perf_counter() - began < 3
