// Two methods side by side: one row per rank, the strongest samples of each one's feature.

const ROWS_A_PAGE = 24;
const ORDERS = [
  ["expected", "expected activation"],
  ["purity", "purity"],
  ["random", "a random draw"],
];

/** A shuffle that is the same each time the page is opened. */
function shuffled(numbers, seed) {
  let state = seed;
  const next = () => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return state / 2 ** 32;
  };
  for (let at = numbers.length - 1; at > 0; at--) {
    const other = Math.floor(next() * (at + 1));
    [numbers[at], numbers[other]] = [numbers[other], numbers[at]];
  }
  return numbers;
}

/** For each method the numbers of its alive features in the order asked for. */
function comparedOrder(key) {
  return [against, features].map((those, number) => {
    const isThere = those === features ? isListed : (f) => those.n_active[f] > 0;
    const alive = Array.from(those.n_active.keys()).filter(isThere);
    if (key === "random") return shuffled(alive, 7 + number);
    const values = those[key];
    const score = (f) => (Number.isNaN(values[f]) ? -1 : values[f]);
    return alive.sort((a, b) => score(b) - score(a) || those.expected[b] - those.expected[a]);
  });
}

function comparedCell(those, feature, isLinked) {
  if (feature === undefined) return el("div", { class: "side" });
  const purity = those.purity[feature];
  const name = isLinked ? featureName(feature) : those.names[feature] || `feature ${feature}`;
  const facts = [];
  if (hasLabels)
    facts.push(Number.isNaN(purity) ? "too few active" : `purity ${purity.toFixed(2)}`);
  const which = isLinked ? `■ ${content.method}` : `● ${against.method}`;
  facts.push(`on for ${percent(those.n_active[feature] / content.n_samples)}`);
  return el(
    "div",
    { class: "side" },
    el(
      "p",
      { class: "side-head" },
      el("span", { class: "which" }, which),
      isLinked ? el("a", { href: `#/feature/${feature}` }, name) : el("span", {}, name),
      el("span", { class: "number" }, `#${feature}`),
      el("small", {}, facts.join(" · ")),
    ),
    gallery(samples, row(those.top, feature).slice(0, samples.image_sheets ? 10 : 4), {
      mark: false,
      size: 48,
    }),
  );
}

function comparedRows([left, right], start, n) {
  const rows = [];
  for (let at = start; at < Math.min(start + n, Math.max(left.length, right.length)); at++) {
    rows.push(
      el(
        "div",
        { class: "versus" },
        comparedCell(against, left[at], false),
        comparedCell(features, right[at], true),
      ),
    );
  }
  const heads = [against.method, content.method].map((name, at) =>
    el("h2", {}, `${at ? "■" : "●"} ${name}`),
  );
  return el("div", { class: "compare" }, el("div", { class: "versus heads" }, heads), rows);
}

function showCompare(query) {
  const key = query.get("by") || "expected";
  const order = comparedOrder(key);
  const nPages = Math.ceil(Math.max(...order.map((numbers) => numbers.length)) / ROWS_A_PAGE);
  const page = Math.min(Number(query.get("page") || 0), Math.max(0, nPages - 1));
  const known = ORDERS.filter(([name]) => hasLabels || name !== "purity");
  return [
    el("h1", {}, `${against.method} beside ${content.method}`),
    el(
      "p",
      { class: "quiet" },
      "One row per rank: the strongest samples of that feature. Features of the two methods in a row do not belong together.",
      against.signed
        ? ` ${against.method} has negative features; they count by their absolute value.`
        : "",
    ),
    el(
      "div",
      { class: "toolbar" },
      choice("Order", known, key, (value) => {
        location.hash = value === "expected" ? "#/compare" : `#/compare?by=${value}`;
      }),
    ),
    comparedRows(order, page * ROWS_A_PAGE, ROWS_A_PAGE),
    pager(page, nPages, (p) => `#/compare?by=${key}&page=${p}`),
  ];
}
