"""A real browser, and atlases of three kinds to open in it.

Without a browser these tests are skipped, except with CI=true: there a skipped test is a failure.
"""

import os
from types import SimpleNamespace

import numpy as np
import pytest
from browsing import HOSTILE, go, running_browser

from nonneg.report import Atlas, RunInfo, Samples, SelectionPoint, Training, write_atlas


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item, call):
    report = yield
    if report.skipped and os.environ.get("CI"):
        report.outcome = "failed"
        report.longrepr = f"skipped, which CI does not allow: {report.longrepr}"
    return report


@pytest.fixture(scope="module")
def browser():
    yield from running_browser()


@pytest.fixture(scope="module")
def tabs(browser):
    """Pages that stay open for the next test, by file; and what went wrong on any page."""
    return SimpleNamespace(open={}, wrong=[])


@pytest.fixture
def visit(browser, tabs):
    """Open a file at an address; at the end there must have been no error and no request.

    Without settings, a page that another test left open is used again: that is much faster.
    """
    contexts, wrong = [], tabs.wrong
    wrong.clear()

    def opened(path, route="", **settings):
        if not settings and path in tabs.open:
            page = tabs.open[path]
            go(page, route)
            return page
        context = browser.new_context(**settings)
        page = context.new_page()
        page.set_default_timeout(10_000)
        page.on("console", lambda message: wrong.append(message.text))
        page.on("pageerror", lambda error: wrong.append(str(error)))
        page.on("dialog", lambda dialog: wrong.append(dialog.message))
        page.on(
            "request",
            lambda request: None if request.url.startswith("file:") else wrong.append(request.url),
        )
        page.goto(f"{path.as_uri()}#/{route}")
        page.wait_for_selector("h1")
        if settings:
            contexts.append(context)
        else:
            tabs.open[path] = page
        return page

    yield opened
    for context in contexts:
        context.close()
    assert wrong == []


@pytest.fixture(scope="session")
def digits(world, tmp_path_factory):
    """CL beside NCL, with a history and a selection result."""
    path = tmp_path_factory.mktemp("atlas") / "digits.html"
    records = [
        {"epoch": e, "loss": 5 / e, "sparsity": 0.9, "alive_features": 40} for e in (1, 2, 3)
    ]
    points = [
        SelectionPoint("probe", ranking, n, 0.9 + n / 1000)
        for ranking, n in (("ea_rectified", 10), ("random", 10), ("all", 44))
    ]
    atlas = Atlas(
        samples=Samples(
            features=world.features,
            labels=world.labels,
            class_names=world.class_names,
            images=world.images,
        ),
        title="Digits",
        method="NCL",
        against=world.signed,
        against_method="CL",
        other_seed=world.features[:, ::-1],
        reference=world.pixels,
        sepin=np.linspace(0, 1, 44),
        run_info=RunInfo(
            about=["Trained on digits."],
            selection=points,
            training={"NCL": Training(records, {"loss": 4.5})},
        ),
    )
    write_atlas(path, atlas)
    return path


@pytest.fixture(scope="session")
def texts(tmp_path_factory):
    """Texts of three kinds without labels, one of them hostile."""
    path = tmp_path_factory.mktemp("atlas") / "texts.html"
    lines = [f"{word} number {i}" for i, word in enumerate(["apple", "river", "engine"] * 20)]
    lines[0] = HOSTILE
    features = np.tile(np.eye(3), (20, 1)) + 0.1
    samples = Samples(features=features, texts=lines, ids=[f"id-{i}" for i in range(60)])
    write_atlas(path, Atlas(samples=samples, title=HOSTILE, run_info=RunInfo(notes=[HOSTILE])))
    return path


TOPICS = (
    "the kettle boils strong black tea",
    "a late train left the old station",
    "rain and wind cross the green hills",
    "the choir sings a slow winter song",
    "fresh bread and butter for breakfast",
    "the goalkeeper saved a second penalty",
    "new taxes divide the city council",
    "a telescope found a faint red star",
)


def letters_atlas(n=240, seed=0):
    """Texts on eight topics with labels and dates; the first topic fades, the second one rises."""
    rng = np.random.default_rng(seed)
    topic = np.arange(n) % len(TOPICS)
    day = np.sort(rng.integers(0, 700, size=n))
    topic[(topic < 2) & (day > 350)] = 1
    topic[(topic < 2) & (day <= 350)] = 0
    features = np.zeros((n, 12))
    features[np.arange(n), topic] = rng.uniform(0.5, 1, size=n)
    features[np.arange(n), (topic + 1) % 8] = rng.uniform(0, 0.4, size=n)
    features[:, 8:11] = rng.random((n, 3)) * (rng.random((n, 3)) < 0.1)
    texts = [f"{TOPICS[t]} {i}" for i, t in enumerate(topic)]
    texts[8] = f"{HOSTILE} {texts[8]}"
    samples = Samples(
        features=features,
        texts=texts,
        labels=topic // 2,
        class_names=["home", "outside", "evening", HOSTILE],
        dates=np.datetime64("2023-01-01") + day,
    )
    return Atlas(samples=samples, title="Letters")


@pytest.fixture(scope="session")
def letters(tmp_path_factory):
    """Texts with labels and dates."""
    path = tmp_path_factory.mktemp("atlas") / "letters.html"
    write_atlas(path, letters_atlas())
    return path


@pytest.fixture(scope="session")
def pairs(world, tmp_path_factory):
    """Images with two captions each, one of them hostile; feature 43 is on for one caption only."""
    path = tmp_path_factory.mktemp("atlas") / "pairs.html"
    of = np.repeat(np.arange(len(world.labels)), 2)
    texts = [f"drawing {i % 2} of a {'oiatwrfhxnv'[world.labels[n]] * 3}" for i, n in enumerate(of)]
    texts[6] = HOSTILE
    spoken = world.features[of]
    spoken[9, 43] = 0.5
    atlas = Atlas(
        samples=Samples(features=world.features, images=world.images, kind="image"),
        captions=Samples(features=spoken, texts=texts, kind="caption"),
        caption_of=of,
    )
    write_atlas(path, atlas)
    return path
