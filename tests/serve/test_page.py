"""The page of a server in a browser: the box works, what is typed is text, and nothing else."""

import threading
from contextlib import contextmanager

import pytest
from browsing import HOSTILE, running_browser, until
from word_sums import TEXTS

from nonneg.report import atlas
from nonneg.serve import create_app, open_service
from nonneg.serve.running import listening_socket, uvicorn_server


@pytest.fixture(scope="module")
def browser():
    yield from running_browser()


@contextmanager
def listening(service, **how):
    """The address of a server in a thread of this process."""
    listener = listening_socket("127.0.0.1", 0)
    server = uvicorn_server(create_app(service, **how), service)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
    thread.start()
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}/"
    finally:
        server.should_exit = True
        thread.join(20)
        service.close()
        assert not thread.is_alive()


@pytest.fixture
def visit(extra, browser):
    """Open an address; at the end nothing must have gone wrong or been asked elsewhere."""
    contexts, wrong = [], []

    def opened(address, **settings):
        contexts.append(browser.new_context(**settings))
        page = contexts[-1].new_page()
        page.set_default_timeout(10_000)
        page.on("console", lambda m: None if "Failed to load" in m.text else wrong.append(m.text))
        page.on("pageerror", lambda error: wrong.append(str(error)))
        page.on("dialog", lambda dialog: wrong.append(dialog.message))
        page.on(
            "request",
            lambda r: None if r.url.startswith((address, "blob:")) else wrong.append(r.url),
        )
        page.goto(address)
        page.wait_for_selector("h1")
        return page

    yield opened
    for context in contexts:
        context.close()
    assert wrong == []


def try_it(page, typed):
    page.fill("textarea[name=typed]", typed)
    page.click("form.try button")
    until(page, "!document.querySelector('form.try button').disabled")


def test_the_atlas_has_a_box_for_a_text(visit, place):
    atlas(place.run)
    service = open_service(place.run, place.index)
    with listening(service, hosts={"127.0.0.1"}) as address:
        page = visit(address)
        assert page.locator("header.top nav a").count() > 4  # it is the atlas
        try_it(page, "any news of snow and wind")
        rows = page.locator(".tried-features li")
        shown = rows.all_text_contents()
        assert 0 < len(shown) <= 4
        assert all("#" in row for row in shown)
        hits = page.locator(".tried-hits li")
        assert hits.count() == 10
        hits.first.locator("summary").click()
        until(page, "document.querySelector('.tried-hits .because li') !== null")
        assert "+" in hits.first.locator(".because").text_content()
        rows.first.locator("a").click()
        until(page, "location.hash.startsWith('#/feature/')")
        page.go_back()
        until(page, "document.querySelector('.tried-features li') !== null")  # it stays
        for odd in (
            HOSTILE,
            "<img src=x onerror=alert(1)>",
            "'\"><svg/onload=alert(3)>",
            "\u2028{}",
        ):
            try_it(page, odd)
            assert page.locator(".tried").text_content()
        assert page.locator(".tried img, .tried script, .tried svg").count() == 0
        row = service.model.text_encoder.encode([TEXTS[0]])[0].tolist()
        try_it(page, str(row))
        assert page.locator(".tried-features li").count() > 0
        try_it(page, "[1, 2]")
        assert "A row has 16 numbers, this one has 2." in page.text_content("[role=alert]")
        page.goto(f"{address}docs")
        assert "POST /embed_sparse" in page.text_content("body")


def test_without_an_atlas_there_is_the_box_alone(visit, place):
    with listening(open_service(place.vectors), api_key="secret") as address:
        page = visit(address, http_credentials={"username": "me", "password": "secret"})
        assert "nonneg report RUN" in page.text_content("main")
        try_it(page, " ".join(map(str, place.X[0].tolist())))
        assert page.locator(".tried-features li").count() > 0
        assert page.locator(".tried-hits").count() == 0
        try_it(page, "1 2 3 4 5 <b>6</b>")
        assert page.text_content("[role=alert]") == "“<b>6</b>” is no number."
        try_it(page, "0 0 0 0 0 0")
        assert "No feature is on." in page.text_content(".tried")


def test_a_page_from_disk_has_no_box_and_asks_nobody(place):
    page = (atlas(place.run).path).read_text(encoding="utf-8")
    assert "connect-src" not in page
    assert '"served"' not in page.split('id="content">')[1].split("</script>")[0]


def test_an_atlas_by_another_script_is_not_shown(place, tmp_path):
    from nonneg.report.page import can_be_served, served_page

    page = (atlas(place.run).path).read_text(encoding="utf-8")
    assert can_be_served(page)
    assert not can_be_served(page.replace("script-src 'sha256-", "script-src 'sha256-x"))
    assert not can_be_served("<html>")
    shown = served_page("</title><script>", None, {"reads_texts": True})
    assert "<title>&lt;/title&gt;&lt;script&gt;</title>" in shown
