// The map of the samples: those with the same features lie together.

const LEGEND = 14;
const NO_DATE = -(2 ** 31);
const N_COLOURS = 10;
const MANY_REGIONS = 40; // more cannot be told apart by colour
let lastView = null; // of the map, so that the way back finds it as it was left

/** For each sample the feature that is strongest, -1 where none is active. */
function strongestFeatures() {
  const found = new Int32Array(samples.n).fill(-1);
  for (let i = 0; i < samples.n; i++) {
    let best = 0;
    for (let at = samples.starts[i]; at < samples.starts[i + 1]; at++) {
      const value = Math.abs(samples.values[at]);
      if (value > best) [best, found[i]] = [value, samples.columns[at]];
    }
  }
  return found;
}

/** For each sample the group of features that is strongest by the sum of squares, and all groups. */
function strongestGroups() {
  const groups = branches(2 * tree.features.length - 2, groupCount());
  const groupOf = new Int32Array(content.n_features).fill(-1);
  groups.forEach(({ members }, g) => members.forEach((feature) => (groupOf[feature] = g)));
  const keys = new Int32Array(samples.n).fill(-1);
  const sums = new Float64Array(groups.length);
  for (let i = 0; i < samples.n; i++) {
    sums.fill(0);
    for (let at = samples.starts[i]; at < samples.starts[i + 1]; at++) {
      const g = groupOf[samples.columns[at]];
      if (g >= 0) sums[g] += samples.values[at] ** 2;
      if (g >= 0 && (keys[i] < 0 || sums[g] > sums[keys[i]])) keys[i] = g;
    }
  }
  return { keys, groups };
}

const middleOf = (values) => values.sort()[values.length >> 1];

/** Groups of samples by a number each: [{key, n, x, y}], the largest first, at their median places. */
function regions(keys, xs, ys) {
  const numbers = new Map();
  keys.forEach((key, i) => {
    if (key < 0) return;
    if (!numbers.has(key)) numbers.set(key, []);
    numbers.get(key).push(i);
  });
  return [...numbers]
    .map(([key, some]) => ({
      key,
      n: some.length,
      x: middleOf(Float32Array.from(some, (i) => xs[i])),
      y: middleOf(Float32Array.from(some, (i) => ys[i])),
    }))
    .sort((a, b) => b.n - a.n || a.key - b.key);
}

/** A colour for each region, by number: regions of one colour lie as far apart as can be. */
function regionColours(found) {
  const chosen = new Map();
  const placed = Array.from({ length: N_COLOURS }, () => []);
  for (const region of found) {
    const room = placed.map((others) =>
      others.reduce((least, o) => Math.min(least, Math.hypot(o.x - region.x, o.y - region.y)), 9),
    );
    const colour = room.indexOf(Math.max(...room));
    placed[colour].push(region);
    chosen.set(region.key, colour);
  }
  return chosen;
}

/** Colours of the style by name, read once a drawing since the theme may change. */
function styleColours() {
  const style = getComputedStyle(document.documentElement);
  const read = (name) => style.getPropertyValue(name);
  return {
    read,
    map: Array.from({ length: N_COLOURS }, (_, c) => read(`--m${c}`)),
    ends: [read("--t0"), read("--t1"), read("--t2")],
  };
}

/** A colour between three, for a share from 0 to 1. */
function between(ends, share) {
  const [low, high] = share < 0.5 ? [ends[0], ends[1]] : [ends[1], ends[2]];
  const part = share < 0.5 ? 2 * share : 2 * share - 1;
  const at = (text, k) => parseInt(text.trim().slice(1 + 2 * k, 3 + 2 * k), 16);
  const mixed = [0, 1, 2].map((k) => Math.round(at(low, k) * (1 - part) + at(high, k) * part));
  return `#${mixed.map((value) => value.toString(16).padStart(2, "0")).join("")}`;
}

const dayText = (day) => new Date(day * 864e5).toISOString().slice(0, 10);

/** How points are coloured: their colours, what the legend lists, and the names on the map. */
function colouring(by, xs, ys) {
  const style = styleColours();
  const colours = new Uint32Array(samples.n).fill(pixelColour(style.read("--rest")));
  const short = (name) => name.split(", ").slice(0, 2).join(", ").slice(0, 30);
  const featureLabels = (from) =>
    regions(strongestFeatures(), xs, ys).map((r) => ({ ...r, text: short(featureName(r.key)), from }));
  if (by === "date") {
    const known = samples.dates.filter((day) => day !== NO_DATE);
    const low = known.reduce((a, b) => Math.min(a, b), Infinity);
    const high = known.reduce((a, b) => Math.max(a, b), -Infinity);
    samples.dates.forEach((day, i) => {
      if (day === NO_DATE) return;
      colours[i] = pixelColour(between(style.ends, (day - low) / Math.max(1, high - low)));
    });
    return { colours, labels: featureLabels(), scale: { low, high, ends: style.ends } };
  }
  const { keys, groups } =
    by === "group"
      ? strongestGroups()
      : { keys: by === "class" ? samples.labels : strongestFeatures(), groups: [] };
  const text = (key) => {
    if (by === "class") return className(key);
    return by === "group" ? groupName(groups[key].members) : short(featureName(key));
  };
  const found = regions(keys, xs, ys).map((r) => ({ ...r, text: text(r.key) }));
  const names =
    by === "group" ? found.map((r) => ({ ...r, text: groupName(groups[r.key].members, 2) })) : found;
  const chosen = regionColours(found);
  const drawn = style.map.map(pixelColour);
  keys.forEach((key, i) => {
    if (key >= 0) colours[i] = drawn[chosen.get(key)];
  });
  const entries = found.map((r) => ({ ...r, colour: style.map[chosen.get(r.key)] }));
  // Where the map is enlarged, names of features come in between those of groups.
  const labels = by === "group" ? [...names, ...featureLabels(2)] : names;
  return { colours, keys, labels, entries };
}

function dateLegend({ low, high, ends }) {
  const pieces = Array.from({ length: 30 }, (_, at) =>
    svg("rect", { x: at * 6, y: 0, width: 6, height: 12, fill: between(ends, at / 29) }),
  );
  const label = `Colours from ${dayText(low)} to ${dayText(high)}`;
  return el(
    "div",
    { class: "date-legend" },
    drawing(180, 12, label, pieces),
    el("div", { class: "ends" }, el("span", {}, dayText(low)), el("span", {}, dayText(high))),
  );
}

/** Buttons that let the samples of one class or feature stand out. */
function mapLegend(by, { entries, scale }, chosen, choose) {
  if (scale) return dateLegend(scale);
  const buttons = entries.slice(0, by === "class" ? 40 : LEGEND).map(({ key, n, text, colour }) =>
    el(
      "button",
      {
        type: "button",
        class: "legend-entry",
        title: text,
        "aria-pressed": chosen === key ? "true" : "false",
        onclick: () => choose(chosen === key ? null : key),
      },
      el("span", { class: "swatch", "--swatch": colour }),
      el("span", { class: "legend-name" }, text),
      el("span", { class: "value" }, count(n)),
    ),
  );
  const left = entries.length - buttons.length;
  const words = [
    left > 0 ? `${count(left)} more have names on the map; enlarge it to see them.` : "",
    entries.length > N_COLOURS ? "A colour returns far away for another one." : "",
  ];
  return el("div", { class: "legend-box" }, buttons, el("p", { class: "quiet" }, words.join(" ")));
}

/** What is said of a sample that is pointed at. */
function pointCard(i) {
  const text = samples.texts ? samples.texts[i] : null;
  const facts = [samples.called(i), samples.label(i)];
  if (samples.dates && samples.dates[i] !== NO_DATE) facts.push(dayText(samples.dates[i]));
  const active = samples.active(i).slice(0, 4);
  return [
    el("small", {}, facts.filter(Boolean).join(" · ")),
    samples.image_sheets ? thumbnail(samples, i, 96) : null,
    text ? el("p", {}, text.length > 260 ? `${text.slice(0, 260)}…` : text) : null,
    el(
      "ul",
      { class: "because" },
      active.map(({ feature, value }) =>
        el("li", {}, el("span", {}, featureName(feature)), el("span", { class: "value" }, value.toFixed(2))),
      ),
    ),
  ];
}

/** Which samples stand out, 1 or 0 each; null for all. `keys` says what the legend chooses by. */
function litSamples(query, keys) {
  const text = (query.get("find") || "").trim().toLowerCase();
  const [feature, only] = [query.get("feature"), query.get("only")];
  if (!text && feature === null && only === null) return null;
  const isLit = new Uint8Array(samples.n);
  for (const i of matches(samples, text, null)) isLit[i] = 1;
  if (only !== null && keys) {
    keys.forEach((key, i) => {
      if (key !== Number(only)) isLit[i] = 0;
    });
  }
  if (feature === null) return isLit;
  const { starts, rows } = samples.byFeature;
  const has = new Uint8Array(samples.n);
  for (let at = starts[Number(feature)]; at < starts[Number(feature) + 1]; at++) has[rows[at]] = 1;
  return isLit.map((lit, i) => lit & has[i]);
}

/** The ways to colour the map, the one that fits these features first. */
function mapColourings() {
  const nStrongest = new Set(strongestFeatures()).size;
  const group = tree.features.length > 2 ? [["group", "group of features"]] : [];
  const own = [["feature", "strongest feature"]];
  return [
    ...(nStrongest > MANY_REGIONS ? [...group, ...own] : [...own, ...group]),
    ...(hasLabels ? [["class", "class"]] : []),
    ...(samples.dates ? [["date", "date"]] : []),
  ];
}

const LEGEND_TITLES = {
  feature: "Strongest feature",
  group: "Strongest group of features",
  class: "Classes",
  date: "Date",
};

/** The canvas, moved by pointer and keyboard, with the card of what is pointed at. */
function mapFrame(xs, ys) {
  const canvas = el("canvas", { "aria-hidden": "true" });
  const card = el("div", { class: "point-card", hidden: true });
  const told = el("p", { class: "spoken", "aria-live": "polite" });
  const plot = new Plot(canvas, xs, ys, lastView);
  lastView = plot.view;
  const point = (i, spoken_ = false) => {
    if (i === plot.marked) return;
    plot.marked = i;
    plot.later();
    card.hidden = i < 0;
    if (i < 0) return;
    card.replaceChildren(...el("div", {}, pointCard(i)).childNodes);
    const [px, py] = plot.at(xs[i], ys[i]).map((v) => v / plot.ratio);
    const box = canvas.getBoundingClientRect();
    const left = px > box.width / 2 ? px - card.offsetWidth - 16 : px + 16;
    const top = Math.min(py + 12, box.height - card.offsetHeight - 8);
    card.style.left = `${Math.max(4, left)}px`;
    card.style.top = `${Math.max(4, top)}px`;
    if (spoken_) told.textContent = spoken(samples, i).slice(0, 300);
  };
  const open = (i) => {
    location.hash = samples.href(i);
  };
  movedByPointer(plot, { onpoint: point, onopen: open });
  const middle = () => plot.nearestTo(plot.width / 2, plot.height / 2, 120);
  const keys = {
    ArrowLeft: () => plot.move(60, 0),
    ArrowRight: () => plot.move(-60, 0),
    ArrowUp: () => plot.move(0, 60),
    ArrowDown: () => plot.move(0, -60),
    "+": () => plot.enlarge(1.5),
    "=": () => plot.enlarge(1.5),
    "-": () => plot.enlarge(1 / 1.5),
    0: () => plot.showAll(),
  };
  const frame = el(
    "div",
    {
      class: "point-map",
      tabindex: "0",
      role: "application",
      "aria-label": `Map of ${plural(samples.n, samples.kind)}. Arrow keys move it, plus and minus change its size, 0 shows all, Enter opens the ${samples.kind} nearest to the middle.`,
      onkeydown: (event) => {
        if (event.ctrlKey || event.metaKey || event.altKey) return;
        if (event.key === "Enter" && plot.marked >= 0) return open(plot.marked);
        if (!keys[event.key]) return;
        event.preventDefault();
        keys[event.key]();
        point(middle(), true);
      },
    },
    canvas,
    card,
    told,
  );
  const watcher = new ResizeObserver(() => {
    if (!canvas.isConnected) return watcher.disconnect();
    return plot.resize();
  });
  watcher.observe(canvas);
  const button = (words, text, act) =>
    el("button", { type: "button", "aria-label": words, title: words, onclick: act }, text);
  const zooms = el(
    "div",
    { class: "zooms" },
    button("Enlarge the map", "+", () => plot.enlarge(1.5)),
    button("Shrink the map", "−", () => plot.enlarge(1 / 1.5)),
    button("Show the whole map", "⤢", () => plot.showAll()),
  );
  return { plot, frame: el("div", { class: "plot-box" }, frame, zooms) };
}

function showDocuments(query) {
  const xs = Float32Array.from({ length: samples.n }, (_, i) => samples.places[2 * i] / 65535);
  const ys = Float32Array.from({ length: samples.n }, (_, i) => samples.places[2 * i + 1] / 65535);
  const { plot, frame } = mapFrame(xs, ys);
  const [legend, status] = [el("div", { class: "map-legend" }), el("p", { role: "status", class: "quiet" })];
  const bys = mapColourings();
  const by = bys.some(([key]) => key === query.get("by")) ? query.get("by") : bys[0][0];
  const style = styleColours();
  const found = colouring(by, xs, ys);
  Object.assign(plot, {
    colours: found.colours,
    labels: found.labels,
    ground: pixelColour(style.read("--raised")),
    pale: pixelColour(style.read("--pale")),
    ink: style.read("--ink"),
    halo: style.read("--raised"),
    font: style.read("--sans"),
  });
  const update = () => {
    plot.isLit = litSamples(query, found.keys);
    const nLit = plot.isLit ? plot.isLit.reduce((sum, lit) => sum + lit, 0) : samples.n;
    const feature = query.get("feature");
    const about = feature === null ? "" : ` with ${featureName(Number(feature))} active`;
    status.textContent = plot.isLit
      ? `${count(nLit)} of ${plural(samples.n, samples.kind)}${about} stand out.`
      : `${plural(samples.n, samples.kind)}; those with the same features lie together, axes mean nothing.`;
    const chosen = query.get("only");
    legend.replaceChildren(
      el("h2", {}, LEGEND_TITLES[by]),
      mapLegend(by, found, chosen === null ? null : Number(chosen), (key) => note({ only: key ?? "" })),
    );
    plot.later();
  };
  const note = (changed) => {
    const href = changedHref("map", query, changed);
    query = new URLSearchParams(href.split("?")[1] || "");
    noteAddress(href);
    update();
  };
  update();
  return [
    el("h1", {}, `Map of the ${samples.kind}s`),
    el(
      "div",
      { class: "toolbar" },
      choice("Colour by", bys, by, (value) => {
        location.hash = changedHref("map", query, { by: value === bys[0][0] ? "" : value, only: "" });
      }),
      searchField(`Let ${samples.kind}s stand out by label, text, id or number`, query.get("find") || "", (value) =>
        note({ find: value }),
      ),
    ),
    status,
    el("div", { class: "map-row" }, frame, legend),
    el(
      "p",
      { class: "quiet" },
      "Drag to move, turn the wheel or pinch to enlarge; with the keyboard: arrows, + and −, 0 for all. Point at a dot to read it, click it to open it.",
    ),
  ];
}
