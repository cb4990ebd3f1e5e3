"""The map of the samples: it moves, tells, finds, opens, and stays quick with many points."""

import numpy as np
import pytest
from browsing import HOSTILE, go, until

from nonneg.report import Atlas, Samples, write_atlas

VIEW = "({...lastView})"
WIDE = {"viewport": {"width": 1280, "height": 900}}
# Where sample i is on the screen, in pixels of the page.
PLACE = """(i) => {
  const canvas = document.querySelector('.point-map canvas');
  const box = canvas.getBoundingClientRect();
  const scale = 0.92 * Math.min(box.width, box.height) * lastView.zoom;
  const at = (v, middle, size) => (v / 65535 - middle) * scale + size / 2;
  return [box.left + at(samples.places[2 * i], lastView.x, box.width),
          box.top + at(samples.places[2 * i + 1], lastView.y, box.height)];
}"""
# How many pixels the canvas has, how many of them show its ground, and how many colours there are.
COLOURED = """() => {
  const canvas = document.querySelector('.point-map canvas');
  const { data } = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height);
  const counts = new Map();
  for (const pixel of new Uint32Array(data.buffer)) counts.set(pixel, (counts.get(pixel) || 0) + 1);
  const ground = counts.get(pixelColour(styleColours().read('--raised')));
  return { n: data.length / 4, ground, kinds: counts.size };
}"""


def opened(visit, path, route="map", **settings):
    page = visit(path, route, **(settings or WIDE))
    settled(page)
    return page


def settled(page):
    """Wait until the map has its size and place: what is pointed at must not move away."""
    until(page, "document.querySelector('.point-map canvas')?.width > 300")
    place, before = page.evaluate(PLACE, 0), None
    while place != before:
        page.wait_for_timeout(100)
        place, before = page.evaluate(PLACE, 0), place


def test_points_are_drawn_and_the_legend_counts_them(visit, letters):
    page = opened(visit, letters)
    drawn = page.evaluate(COLOURED)
    assert 0.5 < drawn["ground"] / drawn["n"] < 0.999
    assert drawn["kinds"] > 8
    entries = page.locator(".legend-entry .value").all_text_contents()
    assert sum(int(text) for text in entries) == 240
    page.get_by_label("Colour by").select_option("class")
    until(page, "shown === '#/map?by=class'")
    assert page.locator(".legend-entry").count() == 4
    assert HOSTILE in page.locator(".legend-name").all_text_contents()
    page.get_by_label("Colour by").select_option("date")
    until(page, "shown === '#/map?by=date'")
    assert page.locator(".date-legend .ends span").all_text_contents() == [
        "2023-01-02",
        "2024-11-29",
    ]


def test_the_wheel_enlarges_where_it_points_and_a_drag_moves(visit, letters):
    page = opened(visit, letters)
    before = page.evaluate(PLACE, 7)
    page.mouse.move(*before)
    page.mouse.wheel(0, -300)
    until(page, "lastView.zoom > 2")
    np.testing.assert_allclose(page.evaluate(PLACE, 7), before, atol=3)
    page.mouse.down()
    page.mouse.move(before[0] + 60, before[1] + 25, steps=4)
    page.mouse.up()
    np.testing.assert_allclose(page.evaluate(PLACE, 7), np.add(before, (60, 25)), atol=3)
    assert page.evaluate("shown") == "#/map"  # a drag opens nothing
    page.get_by_label("Show the whole map").click()
    assert page.evaluate(VIEW) == {"zoom": 1, "x": 0.5, "y": 0.5}
    page.mouse.move(*before)
    page.mouse.wheel(0, 100)  # nothing to shrink: the page scrolls instead
    until(page, "lastView.zoom === 1")


def test_two_fingers_pinch(visit, letters):
    page = opened(visit, letters, has_touch=True, **WIDE)
    box = page.locator(".point-map canvas").bounding_box()
    x, y = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
    touch = page.context.new_cdp_session(page)

    def fingers(kind, apart):
        points = [] if kind == "touchEnd" else [{"x": x - apart, "y": y}, {"x": x + apart, "y": y}]
        touch.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": points})

    fingers("touchStart", 40)
    for apart in range(45, 125, 5):
        fingers("touchMove", apart)
    fingers("touchEnd", 120)
    until(page, "lastView.zoom > 2.5")
    assert page.evaluate("lastView.zoom") == pytest.approx(3, rel=0.1)
    assert page.evaluate("lastView.x") == pytest.approx(0.5, abs=0.02)


def test_pointing_tells_and_a_click_opens(visit, letters):
    page = opened(visit, letters, "map?find=letter")
    go(page, "map")
    settled(page)
    page.mouse.move(*page.evaluate(PLACE, 8))
    until(page, "!document.querySelector('.point-card').hidden")
    told = page.locator(".point-card").text_content()
    assert "sample" in told
    assert page.locator(".point-card li").count() >= 1
    assert page.locator(".point-card img").count() == 0
    page.mouse.click(*page.evaluate(PLACE, 8))
    until(page, "shown.startsWith('#/sample/')")
    page.go_back()
    until(page, "shown === '#/map'")


def test_the_keyboard_moves_tells_and_opens(visit, letters):
    page = opened(visit, letters)
    page.locator(".point-map").focus()
    for key in ("+", "+", "ArrowLeft", "ArrowUp", "-"):
        page.keyboard.press(key)
    view = page.evaluate(VIEW)
    assert view["zoom"] == pytest.approx(1.5)
    assert view["x"] < 0.5
    assert view["y"] < 0.5
    until(page, "document.querySelector('.point-map .spoken').textContent !== ''")
    told = page.locator(".point-map .spoken").text_content()
    page.keyboard.press("Enter")
    until(page, "shown.startsWith('#/sample/')")
    assert told.startswith(page.text_content("h1").split("home")[0][:8])
    go(page, "map")
    page.locator(".point-map").focus()
    page.keyboard.press("0")
    assert page.evaluate(VIEW) == {"zoom": 1, "x": 0.5, "y": 0.5}


def test_what_is_found_stands_out(visit, letters):
    page = opened(visit, letters)
    page.get_by_label("stand out").fill("BREAD")
    until(page, "document.querySelector('main [role=status]').textContent.startsWith('30 of 240')")
    assert page.evaluate("location.hash") == "#/map?find=BREAD"
    page.get_by_label("stand out").fill("")
    entry = page.locator(".legend-entry").first
    n = int(entry.locator(".value").text_content())
    entry.click()
    status = f"{n} of 240 samples"
    until(
        page,
        "(text) => document.querySelector('main [role=status]').textContent.startsWith(text)",
        status,
    )
    assert page.locator(".legend-entry[aria-pressed=true]").count() == 1
    page.locator(".legend-entry[aria-pressed=true]").click()
    assert page.evaluate("location.hash") == "#/map"
    go(page, "feature/3")
    page.get_by_role("link", name="All its samples on the map").click()
    until(page, "shown === '#/map?feature=3'")
    n = page.evaluate("features.n_active[3]")
    assert f"{n} of 240 samples with" in page.locator("main [role=status]").text_content()


# Every name that is drawn, as [left, top, right, bottom] on the canvas.
NAMES = """() => {
  const canvas = document.querySelector('.point-map canvas');
  const boxes = [];
  const draw = CanvasRenderingContext2D.prototype.fillText;
  CanvasRenderingContext2D.prototype.fillText = function (text, x, y) {
    const half = this.measureText(text).width / 2;
    boxes.push([x - half, y - 8, x + half, y + 8]);
    draw.call(this, text, x, y);
  };
  document.querySelector('[aria-label="Enlarge the map"]').click();
  return new Promise((done) => setTimeout(() => {
    CanvasRenderingContext2D.prototype.fillText = draw;
    done([boxes, canvas.width, canvas.height]);
  }, 300));
}"""


@pytest.fixture(scope="module")
def crowd(tmp_path_factory):
    """Sixty features, each the strongest for twenty samples."""
    path = tmp_path_factory.mktemp("atlas") / "crowd.html"
    rng = np.random.default_rng(0)
    features = np.kron(np.eye(60), np.ones((20, 1))) + 0.2 * (rng.random((1200, 60)) < 0.05)
    names = [f"quite a long name {f}, and more" for f in range(60)]
    write_atlas(path, Atlas(samples=Samples(features=features), names=names))
    return path


@pytest.mark.parametrize("width", [1280, 400])
def test_names_on_the_map_neither_overlap_nor_leave_it(visit, crowd, width):
    page = opened(visit, crowd, "map?by=feature", viewport={"width": width, "height": 900})
    boxes, right, bottom = page.evaluate(NAMES)
    assert len(boxes) > 4
    for i, (a, b, c, d) in enumerate(boxes):
        assert a >= 0
        assert b >= 0
        assert c <= right
        assert d <= bottom
        for e, f, g, h in boxes[:i]:
            assert c <= e or g <= a or d <= f or h <= b


def test_very_many_features_are_coloured_by_their_groups_at_first(visit, crowd, letters):
    page = opened(visit, crowd)
    assert page.get_by_label("Colour by").input_value() == "group"
    n = page.locator(".legend-entry .value").all_text_contents()
    assert 0 < sum(int(text) for text in n) <= 1200
    page.get_by_label("Colour by").select_option("feature")
    until(page, "shown === '#/map?by=feature'")
    keys = page.evaluate("[...strongestFeatures()]")
    assert keys == np.repeat(np.arange(60), 20).tolist()
    page = opened(visit, letters)
    assert page.get_by_label("Colour by").input_value() == "feature"


def test_images_have_a_map_too(visit, digits):
    page = opened(visit, digits)
    assert "360 samples" in page.locator("main [role=status]").text_content()
    page.mouse.move(*page.evaluate(PLACE, 7))
    until(page, "document.querySelector('.point-card canvas') !== null")


FRAMES = """(n) => new Promise((done) => {
  const canvas = document.querySelector('.point-map canvas');
  const box = canvas.getBoundingClientRect();
  const [x, y] = [box.left + box.width / 2, box.top + box.height / 2];
  const told = (kind, dx) => canvas.dispatchEvent(new PointerEvent(kind, {
    pointerId: 1, clientX: x + dx, clientY: y + dx / 2, button: 0, bubbles: true }));
  canvas.setPointerCapture = () => {};
  told('pointerdown', 0);
  const times = [];
  const frame = (now) => {
    times.push(now);
    const k = times.length;
    told('pointermove', 150 * Math.sin(k / 9));
    const wheel = { deltaY: k % 40 < 20 ? -25 : 25, clientX: x, clientY: y, cancelable: true };
    canvas.dispatchEvent(new WheelEvent('wheel', wheel));
    if (k <= n) requestAnimationFrame(frame);
    else { told('pointerup', 0); done(times.slice(1).map((t, i) => t - times[i])); }
  };
  requestAnimationFrame(frame);
})"""


def many_points(path, n, monkeypatch):
    """A page of so many samples, whose places are drawn at random: drawing them takes as long."""
    rng = np.random.default_rng(0)
    features = np.zeros((n, 64), dtype=np.float32)
    features[np.arange(n), rng.integers(64, size=n)] = 1
    features[np.arange(n), rng.integers(64, size=n)] += 0.3
    places = rng.normal(0.5, 0.15, size=(n, 2)).clip(0, 1)
    monkeypatch.setattr("nonneg.report.contents.Company.sample_places", lambda *_: places)
    texts = [f"text number {i}" for i in range(n)]
    samples = Samples(features=features, texts=texts)
    return write_atlas(path, Atlas(samples=samples), max_samples=n)


def test_panning_and_zooming_draw_every_frame(visit, letters):
    page = opened(visit, letters)
    page.evaluate("""() => { window.nDrawn = 0; const draw = Plot.prototype.draw;
      Plot.prototype.draw = function () { window.nDrawn++; draw.call(this); }; }""")
    times = page.evaluate(FRAMES, 30)
    assert len(times) == 30
    assert page.evaluate("window.nDrawn") >= 28
    assert np.median(times) < 1000 / 15


@pytest.mark.slow
def test_50000_points_move_at_30_frames_a_second(visit, tmp_path, monkeypatch):
    written = many_points(tmp_path / "many.html", 50_000, monkeypatch)
    assert written.n_shown == 50_000
    assert written.n_bytes < 12_000_000
    page = opened(visit, written.path)
    best = min(float(np.median(page.evaluate(FRAMES, 120))) for _ in range(3))
    assert best < 1000 / 30, f"{1000 / best:.0f} frames a second"
