// The map of the features: on a plane, near those that fire for the same samples.

/** A name that fits beside its point. */
function shortName(feature) {
  const name = featureName(feature);
  return name.length > 28 ? `${name.slice(0, 27).trimEnd()}…` : name;
}

/** Names that do not lie on each other, features that are strongest on average first. */
function placedNames(places, width, height) {
  const boxes = [];
  return places.filter(({ feature, x, y }) => {
    const long = shortName(feature).length * 6.5 + 12;
    const left = x > 0.8 ? x * width - long : x * width;
    const box = [left, y * height - 8, left + long, y * height + 10];
    const free = boxes.every(
      (b) => box[2] < b[0] || box[0] > b[2] || box[3] < b[1] || box[1] > b[3],
    );
    if (free) boxes.push(box);
    return free;
  });
}

function featureMap() {
  if (!space.map.length) return el("p", { class: "quiet" }, "No feature is alive.");
  const places = [...space.map]
    .map((feature, at) => ({ feature, x: space.places[2 * at], y: space.places[2 * at + 1] }))
    .filter(({ feature }) => isListed(feature));
  const plane = el("div", { class: "plane" });
  const frame = el(
    "div",
    {
      class: "map",
      tabindex: "0",
      role: "group",
      "aria-label": "Map of the features; the part called Features lists the same ones",
    },
    plane,
  );
  const draw = (zoom) => {
    plane.style.setProperty("--zoom", zoom);
    const width = Math.max(320, Math.min(1060, document.documentElement.clientWidth - 40)) * zoom;
    const named = samples.image_sheets
      ? new Set()
      : new Set(placedNames(places, width, width * 0.68).map((p) => p.feature));
    // Names come last, so that no dot lies on them.
    const inOrder = [...places].sort((a, b) => named.has(a.feature) - named.has(b.feature));
    plane.replaceChildren(
      ...inOrder.map(({ feature, x, y }) => {
        const title = `#${feature} ${featureName(feature)}`;
        const first = features.top[feature * features.top.shape[1]];
        const isImage = samples.image_sheets && first >= 0;
        return el(
          "a",
          {
            class: isImage ? "spot" : "spot dot",
            href: `#/feature/${feature}`,
            title,
            tabindex: "-1",
            "aria-label": title,
            "--x": x,
            "--y": y,
          },
          isImage ? thumbnail(samples, first, 30) : null,
          named.has(feature)
            ? el("span", { class: x > 0.8 ? "flipped" : null }, shortName(feature))
            : null,
        );
      }),
    );
  };
  const first = document.documentElement.clientWidth < 600 ? 2 : 1;
  draw(first);
  const zooms = choice(
    "Zoom",
    [
      [1, "1 ×"],
      [2, "2 ×"],
      [4, "4 ×"],
    ],
    first,
    (value) => draw(Number(value)),
  );
  return el("div", {}, zooms, frame);
}

function mapLimit() {
  const alive = features.n_active.filter((n) => n > 0).length;
  return space.map.length < alive
    ? ` Of ${count(alive)} alive features, the ${count(space.map.length)} strongest on average are drawn.`
    : "";
}
