// The space of the features: active ones per sample, correlations, and how few are enough.

const RANKINGS = {
  ea_rectified: "expected activation",
  ea_signed: "EA of signed scores",
  random: "random",
};
const TASKS = { probe: "Linear probe", retrieval: "Precision at 10", transfer: "Transfer" };

function activeCounts() {
  const { counts, width, mean, median } = space.active_per_sample;
  const label = `Active features per ${samples.kind}: mean ${decimal(mean)}, median ${decimal(median)}`;
  const high = count(counts.length * width - 1);
  return el(
    "figure",
    {},
    histogram(counts, { width: 420, height: 110, label, low: "0", high }),
    el("figcaption", {}, `${label}; heights by the square root of the number of ${samples.kind}s.`),
  );
}

/** Where a grey-blue scale from 0 to 1 stands, the same in both themes but for its ends. */
function heatColour(value) {
  const dark = isDark();
  const light = dark ? 12 + 76 * value : 97 - 72 * value;
  return `hsl(${220 - 40 * value} ${20 + 50 * value}% ${light}%)`;
}

function heatMap() {
  const n = space.heat.length;
  if (n < 2) return el("p", { class: "quiet" }, "Fewer than two features are alive.");
  const cell = Math.max(4, Math.floor(504 / n));
  const canvas = el("canvas", {
    width: n * cell,
    height: n * cell,
    class: "heat",
    role: "img",
    "aria-label": `Cosines between the ${n} features that are strongest on average`,
  });
  const paper = canvas.getContext("2d");
  for (let i = 0; i < n; i++) {
    for (let j = 0; j < n; j++) {
      paper.fillStyle = heatColour(space.heat_cosines[i * n + j] / 255);
      paper.fillRect(j * cell, i * cell, cell, cell);
    }
  }
  const words = el(
    "p",
    { class: "readout", "aria-live": "polite" },
    "Point at a square; click it to open the feature of its row.",
  );
  const at = (event) => {
    const box = canvas.getBoundingClientRect();
    const index = (offset, size) => Math.min(n - 1, Math.max(0, Math.floor((offset / size) * n)));
    return [index(event.clientY - box.top, box.height), index(event.clientX - box.left, box.width)];
  };
  canvas.addEventListener("mousemove", (event) => {
    const [i, j] = at(event);
    const cosine = (space.heat_cosines[i * n + j] / 255).toFixed(2);
    const [a, b] = [space.heat[i], space.heat[j]];
    words.textContent = `#${a} ${featureName(a)} and #${b} ${featureName(b)}: ${cosine}`;
  });
  canvas.addEventListener("click", (event) => {
    location.hash = `#/feature/${space.heat[at(event)[0]]}`;
  });
  return el("figure", {}, canvas, words, strongestPairs(n));
}

function strongestPairs(n) {
  const pairs = [];
  for (let i = 0; i < n; i++)
    for (let j = i + 1; j < n; j++) pairs.push([space.heat_cosines[i * n + j] / 255, i, j]);
  pairs.sort((a, b) => b[0] - a[0]);
  const link = (at) =>
    el(
      "a",
      { href: `#/feature/${space.heat[at]}` },
      `${featureName(space.heat[at])} #${space.heat[at]}`,
    );
  return el(
    "details",
    {},
    el("summary", {}, "The strongest pairs in words"),
    el(
      "ol",
      {},
      pairs
        .slice(0, 12)
        .map(([cosine, i, j]) => el("li", {}, link(i), " and ", link(j), ` ${cosine.toFixed(2)}`)),
    ),
  );
}

function expectedCurve() {
  const values = Float32Array.from(features.expected).sort().reverse();
  const points = [];
  for (
    let k = 1;
    k <= values.length && values[k - 1] > 0;
    k = Math.max(k + 1, Math.round(k * 1.15))
  ) {
    points.push([k, values[k - 1]]);
  }
  if (points.length < 2) return null;
  const line = [{ name: "EA", points }];
  const label = "Expected activation of the features, the largest first";
  return el(
    "figure",
    {},
    lineChart(line, { label, xLabel: "rank of the feature", zero: true }),
    el("figcaption", {}, `${label}.`),
  );
}

function selectionCharts() {
  const charts = [];
  for (const [method, points] of Object.entries(space.selection)) {
    for (const task of Object.keys(TASKS)) {
      const ours = points.filter((point) => point.task === task);
      const all = ours.find((point) => point.ranking === "all");
      const lines = Object.entries(RANKINGS)
        .map(([ranking, name]) => ({
          name,
          points: ours
            .filter((p) => p.ranking === ranking)
            .concat(all ? [all] : [])
            .map((p) => [p.n_features, p.value])
            .sort((a, b) => a[0] - b[0]),
        }))
        .filter(({ points: kept }) => kept.length > 1);
      if (!lines.length) continue;
      const label = `${TASKS[task]} of ${method} with the features that are kept`;
      charts.push(
        el(
          "figure",
          {},
          lineChart(lines, { label, xLabel: "features kept", logX: true, width: 460 }),
          el("figcaption", {}, `${label}.`),
        ),
      );
    }
  }
  return charts;
}

function spectrum() {
  const values = space.singular_values;
  if (values.length < 2 || !(values[0] > 0)) return null;
  const points = Array.from(values, (value, at) => [at + 1, value / values[0]]);
  const label = `Singular values of the features; effective rank ${decimal(space.effective_rank)}`;
  return el(
    "figure",
    {},
    lineChart([{ name: "σ / σ₁", points }], { label, xLabel: "rank", zero: true }),
    el("figcaption", {}, `${label}.`),
  );
}

function showSpace() {
  const charts = selectionCharts();
  return [
    el("h1", {}, "The space"),
    section(
      "A map of the features",
      `Features that fire for the same ${samples.kind}s lie together; each is a link, drawn as ${samples.image_sheets ? `its strongest ${samples.kind}` : "a dot, some with their names"}. Axes mean nothing.` +
        mapLimit(),
      featureMap(),
    ),
    section(`How many features are active per ${samples.kind}?`, null, activeCounts()),
    section(
      "Do features repeat each other?",
      `Absolute cosines between the ${space.heat.length} features that are strongest on average, ordered so that alike ones are neighbours: pale is 0, strong is 1.`,
      heatMap(),
    ),
    section(
      "How few features are enough?",
      charts.length
        ? "Features are ranked on the training set, the figures are of the test set."
        : "Accuracy with some of the features is measured by nonneg evaluate; this page was made without it.",
      el("div", { class: "figures-row" }, expectedCurve(), charts, spectrum()),
    ),
  ];
}
