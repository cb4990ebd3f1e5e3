// Activations over time: a line with its band for each feature, and those that rose or fell most.

const time = table(content.time);
const MOST_CHANGED = 12;

/** The mean of a feature in each period that has samples, with its 95 % interval. */
function timePoints(feature) {
  const means = row(time.means, feature, false);
  const errors = row(time.errors, feature, false);
  const found = [];
  means.forEach((mean, at) => {
    if (Number.isNaN(mean)) return;
    const reach = Number.isNaN(errors[at]) ? 0 : 1.96 * errors[at];
    found.push({ at, mean, low: Math.max(0, mean - reach), high: mean + reach });
  });
  return found;
}

function changeWords(feature) {
  const change = time.change[feature];
  if (Number.isNaN(change)) return "";
  const reach = 1.96 * time.change_error[feature];
  const sure = time.is_sure[feature] ? "" : ", not significant";
  return `${signed(change)} from first to last (95 %: ${signed(change - reach)} to ${signed(change + reach)}${sure})`;
}

/** The line of one feature as a chart with axes. */
function timeChart(feature) {
  const points = timePoints(feature);
  const label = `Mean activation per ${time.unit}: ${time.periods[0]} to ${time.periods[time.periods.length - 1]}`;
  const lines = [
    {
      name: "mean",
      points: points.map(({ at, mean }) => [at, mean]),
      band: points.map(({ at, low, high }) => [at, low, high]),
    },
  ];
  return el(
    "figure",
    {},
    lineChart(lines, { width: 560, label, xLabel: time.unit, zero: true, xText: (at) => time.periods[at] }),
    el("figcaption", {}, `${label}, with 95 % intervals. ${changeWords(feature)}`),
  );
}

function timePart(feature) {
  if (!time || isMerged(feature)) return null;
  return section(
    "Over time",
    `Mean strength over the ${samples.kind}s of each ${time.unit}.`,
    timeChart(feature),
  );
}

/** The line of one feature, small and without axes. */
function sparkline(feature) {
  const [width, height] = [180, 34];
  const points = timePoints(feature);
  const top = Math.max(...points.map(({ high }) => high), 1e-9);
  const px = (at) => (2 + (at / Math.max(1, time.periods.length - 1)) * (width - 4)).toFixed(1);
  const py = (value) => (height - 2 - (value / top) * (height - 4)).toFixed(1);
  const around = [
    ...points.map(({ at, high }) => `${px(at)} ${py(high)}`),
    ...points.map(({ at, low }) => `${px(at)} ${py(low)}`).reverse(),
  ];
  const line = points.map(({ at, mean }, i) => `${i ? "L" : "M"}${px(at)} ${py(mean)}`).join("");
  const label = `${featureName(feature)} over time: ${changeWords(feature)}`;
  return drawing(
    width,
    height,
    label,
    svg("path", { d: `M${around.join("L")}z`, class: "band-area" }),
    svg("path", { d: line, class: "line", stroke: COLOURS[0] }),
  );
}

function changedRows(numbers) {
  if (!numbers.length) return el("p", { class: "quiet" }, "None.");
  return el(
    "ul",
    { class: "rows trends" },
    numbers.map((feature) =>
      el(
        "li",
        {},
        el(
          "a",
          { href: `#/feature/${feature}` },
          featureName(feature),
          el("span", { class: "number" }, `#${feature}`),
        ),
        sparkline(feature),
        el("small", {}, changeWords(feature)),
      ),
    ),
  );
}

function showTime() {
  const listed = sorted("expected").filter((f) => isListed(f) && !Number.isNaN(time.change[f]));
  const order = listed.sort((a, b) => time.change[b] - time.change[a]);
  const sure = order.filter((f) => time.is_sure[f]);
  const rose = sure.filter((f) => time.change[f] > 0);
  const fell = sure.filter((f) => time.change[f] < 0).reverse();
  const counts = [...time.counts];
  const [first, last] = [time.periods[0], time.periods[time.periods.length - 1]];
  const label = `${samples.kind}s per ${time.unit}, ${first} to ${last}`;
  const more = (numbers) =>
    numbers.length > MOST_CHANGED
      ? el(
          "details",
          {},
          el("summary", {}, `${count(numbers.length - MOST_CHANGED)} more`),
          changedRows(numbers.slice(MOST_CHANGED)),
        )
      : null;
  return [
    el("h1", {}, "Over time"),
    el(
      "p",
      { class: "lead" },
      order.length
        ? `${count(sure.length)} of ${plural(order.length, "feature")} changed significantly from ${first} to ${last}: by a straight line through all dated ${samples.kind}s, at a false discovery rate of 5 %.`
        : "There are too few dates to tell what changed.",
    ),
    el(
      "div",
      { class: "pairwise" },
      section("What rose most", null, changedRows(rose.slice(0, MOST_CHANGED)), more(rose)),
      section("What fell most", null, changedRows(fell.slice(0, MOST_CHANGED)), more(fell)),
    ),
    section(
      `${samples.kind[0].toUpperCase()}${samples.kind.slice(1)}s per ${time.unit}`,
      null,
      el(
        "figure",
        {},
        histogram(counts, { width: 560, height: 90, label, low: first, high: last }),
        el("figcaption", {}, `${label}; heights by the square root of their number.`),
      ),
    ),
  ];
}
