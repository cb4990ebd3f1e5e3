"""Served runs: one fitted to texts, with an index and an atlas, and one fitted to vectors."""

import os
from types import SimpleNamespace

import numpy as np
import pytest
from commands import nonneg_here
from word_sums import KINDS, TEXTS, WordSums, installed, write_model

import nonneg as library
from nonneg.runs import fit_run, index_run, text_files
from nonneg.runs.vector_fits import vector_experiment
from nonneg.serve import create_app, open_service

PACKAGES = ("fastapi", "uvicorn", "httpx")
HERE = "http://127.0.0.1"
QUICK = ["max_steps=60", "n_components=32", "max_active=4"]


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item, call):
    """With CI=true a page test that is skipped is a failure."""
    report = yield
    if report.skipped and os.environ.get("CI") and "visit" in item.fixturenames:
        report.outcome = "failed"
        report.longrepr = f"skipped, which CI does not allow: {report.longrepr}"
    return report


@pytest.fixture(scope="session")
def place(tmp_path_factory):
    """A run on texts with its index, and one on vectors."""
    folder = tmp_path_factory.mktemp("served")
    write_model(folder / "model")
    rows = [f"{text},{kind}" for text, kind in zip(TEXTS, KINDS, strict=True)]
    (folder / "requests.csv").write_text("\n".join(["text,kind", *rows]) + "\n")
    with pytest.MonkeyPatch.context() as patched:
        installed(patched)
        run = folder / "runs" / "requests"
        files = text_files(
            folder / "requests.csv", out=run, text="text", label="kind", encoder=folder / "model"
        )
        experiment, machine = vector_experiment(files, QUICK)
        fit_run(experiment, out=run, machine=machine)
        index_run(run, str(folder / "requests.csv"), out=folder / "index")
    Z = library.NCL.load(run).transform(WordSums().encode(TEXTS))
    X = np.random.default_rng(0).normal(size=(200, 6)).astype(np.float32)
    vectors = library.NCL(n_components=16, max_steps=20, random_state=0).fit(X)
    vectors.save(folder / "vectors")
    return SimpleNamespace(
        folder=folder, run=run, index=folder / "index", vectors=folder / "vectors", X=X, Z=Z
    )


@pytest.fixture(autouse=True)
def _library(monkeypatch):
    """The encoder without weights stands in the place of sentence-transformers."""
    installed(monkeypatch)


@pytest.fixture(scope="session")
def extra():
    """Skips what needs the extra where it is not installed."""
    for package in PACKAGES:
        pytest.importorskip(package, reason=f"{package} is not installed; it is in the dev extra")


@pytest.fixture
def clients(extra, place):
    """Clients of applications, which end with the test."""
    from starlette.testclient import TestClient

    opened = []

    def made(run="texts", limits=None, **how):
        service = open_service(
            place.run if run == "texts" else place.vectors,
            place.index if run == "texts" else None,
            limits=limits,
        )
        client = TestClient(create_app(service, **how), base_url=HERE)
        client.service = service
        opened.append(client)
        return client

    yield made
    for client in opened:
        client.service.close()
        client.close()


@pytest.fixture
def client(clients):
    """Of the run on texts, with its index."""
    return clients()


@pytest.fixture(scope="session")
def nonneg():
    return nonneg_here
