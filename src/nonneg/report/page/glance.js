// The first view: what was trained, the figures against chance, and the first features.

function bigNumber(value, words, beside) {
  return el(
    "div",
    { class: "big" },
    el("strong", {}, value),
    el("span", {}, words),
    beside ? el("small", {}, beside) : null,
  );
}

function figureOf(key) {
  const found = content.figures.find((figure) => figure.key === key);
  return found ? found.cells[content.method] : null;
}

function bigNumbers() {
  const alive = figureOf("alive_rate").beside;
  const away = features.n_active.filter((_, feature) => stateOf(feature) === "changed").length;
  const n_dead = Math.max(0, alive.n_dead - away);
  const dead = [
    n_dead ? `${count(n_dead)} dead` : away ? null : "none dead",
    away ? `${count(away)} merged or hidden` : null,
  ].filter(Boolean).join(" · ");
  const boxes = [
    bigNumber(count(alive.n_alive), `of ${count(content.n_features)} features are alive`, dead),
    bigNumber(
      decimal(figureOf("active_per_sample").value),
      `features are active per ${samples.kind}`,
      `${percent(figureOf("sparsity").value)} of all entries are zero`,
    ),
  ];
  for (const [key, words] of [
    [`top${content.min_active}_purity`, `of a feature's ${content.min_active} strongest samples share a class`],
    [
      `class_consistency_min${content.min_active}`,
      `of the samples that activate a feature share a class (features with ≥ ${content.min_active} active)`,
    ],
    ["caption_to_sample", `of captions have their ${samples.kind} among the ten nearest`],
    ["sample_to_caption", `of ${samples.kind}s have a caption of theirs among the ten nearest`],
    ["returned", "of the features return in another seed"],
  ]) {
    const cell = figureOf(key);
    if (!cell || missing(cell.value)) continue;
    const { null: chance, low, high, n_features: n, n_samples: among } = cell.beside;
    const notes = [];
    if (!missing(low)) notes.push(`95 %: ${(100 * low).toFixed(1)} to ${(100 * high).toFixed(1)}`);
    if (!missing(chance)) notes.push(`by chance ${percent(chance)}`);
    if (!missing(n)) notes.push(plural(n, "feature"));
    if (!missing(among)) notes.push(`of ${count(among)}`);
    boxes.push(bigNumber(percent(cell.value), words, notes.join(" · ")));
  }
  return el("div", { class: "bigs" }, boxes);
}

function figureCell(figure, cell) {
  if (!cell) return el("td", {}, "–");
  const text = figure.is_rate ? percent : decimal;
  const { null: chance, low, high, n_alive: alive } = cell.beside;
  const notes = [];
  if (!missing(alive)) notes.push(`${count(alive)} features`);
  if (!missing(low)) notes.push(`${text(low)} to ${text(high)}`);
  if (!missing(chance)) notes.push(`chance ${text(chance)}`);
  const beside = notes.length ? el("small", {}, notes.join(" · ")) : null;
  return el("td", {}, text(cell.value), beside);
}

function figureTable() {
  const methods = [...new Set(content.figures.flatMap((figure) => Object.keys(figure.cells)))];
  const head = [el("th", { scope: "col" }, "figure")];
  for (const [number, method] of methods.entries()) {
    head.push(el("th", { scope: "col" }, `${number % 2 ? "■" : "●"} ${method}`));
  }
  const rows = content.figures.map((figure) => {
    const cells = Object.values(figure.cells);
    const isShare = cells.every(({ value }) => missing(value) || (value >= 0 && value <= 1));
    return el(
      "tr",
      {},
      el("th", { scope: "row" }, figure.title, figure.help ? el("small", {}, figure.help) : null),
      methods.map((method) => figureCell(figure, figure.cells[method])),
      el("td", { class: "plot" }, isShare ? dotRow(figure.cells, methods) : null),
    );
  });
  head.push(el("th", { scope: "col", class: "plot" }, "0 … 1, ◇ by chance"));
  return el(
    "div",
    { class: "wide" },
    el("table", { class: "figures" }, el("thead", {}, el("tr", {}, head)), el("tbody", {}, rows)),
  );
}

function firstFeatures() {
  const alive = sorted("expected").filter(isListed);
  const cards = alive.slice(0, 8).map((feature) => featureCard(feature));
  if (!cards.length) return el("p", { class: "quiet" }, `No feature is active for any ${samples.kind}.`);
  return el("div", { class: "cards" }, cards);
}

function showGlance() {
  return [
    el("h1", {}, content.title),
    content.about.map((line) => el("p", { class: "lead" }, line)),
    tryPart(),
    bigNumbers(),
    against
      ? section(
          `${against.method} beside ${content.method}`,
          "One row per feature, strongest on average first, with its strongest samples.",
          comparedRows(comparedOrder("expected"), 0, 8),
          el("p", {}, el("a", { href: "#/compare" }, "All features side by side →")),
        )
      : section(
          "The features that are used most",
          `By expected activation: the mean strength over all ${samples.kind}s.`,
          firstFeatures(),
          el(
            "p",
            {},
            el("a", { href: "#/features" }, `All ${count(content.n_features)} features →`),
          ),
        ),
    section("Figures", "Read each against what chance would give.", figureTable()),
    content.notes.length
      ? section(
          "What this page leaves out",
          null,
          el(
            "ul",
            { class: "notes-list" },
            content.notes.map((note) => el("li", {}, note)),
          ),
        )
      : null,
  ];
}
