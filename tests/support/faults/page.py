"""Strings that want to be scripts, shown on a page of the atlas in a real browser."""

import random
import shutil
from contextlib import contextmanager

import numpy as np
from browsing import go

import nonneg.report

CHROMIUM = (
    shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
)
N_SAMPLES, N_CLASSES, N_FEATURES = 50, 10, 8
N_STRINGS = 2 * N_SAMPLES + N_CLASSES + 1

_RUN = "window.ran=1;alert(1)"
_SCRIPTS = (
    f"<script>{_RUN}</script>",
    f"</script><script>{_RUN}</script>",
    f"<img src=x onerror={_RUN}>",
    f'"><svg onload="{_RUN}">',
    f"' onmouseover='{_RUN}' x='",
    f"<iframe srcdoc='<script>parent.{_RUN}</script>'></iframe>",
    f"<a href=javascript:{_RUN}>x</a>",
    f"<details open ontoggle={_RUN}>",
    f"<style>@import url(https://example.org/x.css)</style><body onload={_RUN}>",
    f"${{{_RUN}}}",
    f"`);{_RUN}//",
    f"\\u003cscript\\u003e{_RUN}\\u003c/script\\u003e",
    f'"}}];{_RUN};[{{"',
    "<!--<script>",
    "<meta http-equiv=refresh content='0;url=https://example.org'>",
    "<link rel=stylesheet href=https://example.org/x.css>",
    "<base href=https://example.org/>",
    "<form action=https://example.org><button autofocus onfocus=alert(1)>",
    "]]><![CDATA[<script>",
    "$title $data ${data} {{data}} %s %(x)s",
)
_AROUND = (
    *("", "tea ", "\u2028", "\u2029", "\u202e", "\x00", "\x1b[31m", "\r\n", "\t", "&lt;", "&#60;"),
    *("'", '"', "`", "\\", "-->", "*/", "//", "\ufeff", "\U0001f375", "é" * 50, "[bold]"),
    "__proto__",
)  # fmt: skip


def hostile(number):
    """A string of this number, the same at every call."""
    chance = random.Random(f"page {number}")
    parts = [chance.choice(_AROUND), chance.choice(_SCRIPTS), chance.choice(_AROUND)]
    if chance.random() < 0.3:
        parts += [chance.choice(_SCRIPTS)]
    found = "".join(parts)
    if chance.random() < 0.2:
        found = found.swapcase()
    return f"{found} {number}"


def write_page(folder, first):
    """An atlas with the strings from a number on, in every place that takes one."""
    strings = iter(hostile(first + number) for number in range(N_STRINGS))
    Z = np.random.default_rng(first).exponential(size=(N_SAMPLES, N_FEATURES)).astype(np.float32)
    Z[Z < 1.2] = 0
    path = folder / f"page-{first}.html"
    texts, ids = ([next(strings) for _ in range(N_SAMPLES)] for _ in range(2))
    nonneg.report.atlas(
        Z,
        out=path,
        texts=texts,
        ids=ids,
        labels=np.arange(N_SAMPLES) % N_CLASSES,
        class_names=[next(strings) for _ in range(N_CLASSES)],
        title=next(strings),
    )
    return path


@contextmanager
def browser():
    """A browser, started once for many pages."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        running = playwright.chromium.launch(
            executable_path=CHROMIUM, args=["--no-sandbox", "--disable-gpu"]
        )
        try:
            yield running
        finally:
            running.close()


def wrong_on(running, path, routes):
    """What a browser reports of a page on a walk: scripts, dialogs, requests and refusals."""
    wrong = []
    page = running.new_page()
    page.set_default_timeout(20_000)
    page.on("console", lambda message: wrong.append(message.text))
    page.on("pageerror", lambda error: wrong.append(str(error)))
    page.on("dialog", lambda dialog: (wrong.append(dialog.message), dialog.dismiss()))
    page.on(
        "request",
        lambda request: None if request.url.startswith("file:") else wrong.append(request.url),
    )
    page.goto(f"{path.as_uri()}#/")
    page.wait_for_selector("h1")
    for route in routes:
        go(page, route)
        page.mouse.move(400, 300)
        if page.evaluate("() => window.ran"):
            wrong.append(f"a script has run at {route}")
    page.close()
    return wrong


LISTS = ("features", "samples", "map", "map?by=class", "groups", "changes", "space")


def routes():
    """All places of a page."""
    return (
        *LISTS,
        *(f"feature/{number}" for number in range(N_FEATURES)),
        *(f"sample/{number}" for number in range(N_SAMPLES)),
        "match/sample/7/sample/9",
    )
