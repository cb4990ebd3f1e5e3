// All features: one card each, sorted, filtered, a page at a time.

const CARDS_A_PAGE = 48;
let lastOrder = null; // of the grid, so that a feature's page knows what comes next

/** A few figures in words; what the grid is sorted by is among them. */
function shortFacts(feature, key) {
  const facts = [];
  if (!Number.isNaN(features.purity[feature]) && hasLabels) {
    facts.push(`purity ${features.purity[feature].toFixed(2)}`);
  }
  facts.push(`on for ${percent(features.n_active[feature] / content.n_samples)}`);
  const sort = SORTS.find(([name]) => name === key);
  if (sort && !["expected", "purity", "frequency"].includes(key)) {
    facts.push(`${sort[1]} ${decimal(sort[2][feature])}`);
  } else {
    facts.push(`EA ${decimal(features.expected[feature])}`);
  }
  return facts.join(" · ");
}

function activationHistogram(feature, options) {
  const counts = [...row(features.histogram, feature, false)];
  const main = features.main_class[feature];
  const mains = hasLabels && main >= 0 ? [...row(features.main_histogram, feature, false)] : null;
  const of = mains ? `, blue: ${classWords(className(main))}` : "";
  const high = features.highest[feature].toFixed(2);
  const label = `Activations of ${plural(features.n_active[feature], samples.kind)} from 0 to ${high}${of}`;
  return histogram(counts, { mains, label, ...options });
}

/** A feature at a glance; the whole card is one link. */
function featureCard(feature, key = null) {
  const href = `#/feature/${feature}`;
  const heading = el(
    "h3",
    {},
    el("a", { href, class: "cover" }, featureName(feature)),
    el("span", { class: "number" }, `#${feature}`),
    isListed(feature) ? pickBox(feature) : null,
  );
  if (isDead(feature)) {
    return el(
      "article",
      { class: "card dead" },
      heading,
      el("p", { class: "quiet" }, deadWords(feature)),
      captionTop ? strip(captions, row(captionTop.top, feature), 2) : null,
    );
  }
  const top = strongest(feature).numbers;
  return el(
    "article",
    { class: "card" },
    heading,
    strip(samples, top, samples.image_sheets ? 12 : 3, 40),
    captionTop ? strip(captions, row(captionTop.top, feature), 3) : null,
    el(
      "div",
      { class: "under" },
      activationHistogram(feature, { width: 100, height: 30 }),
      hasLabels ? mixBar(classMix(feature)) : null,
    ),
    el("p", { class: "facts" }, shortFacts(feature, key)),
  );
}

const stateOf = (feature) =>
  isDead(feature) ? "dead" : isListed(feature) ? "alive" : "changed";

/** Features that pass the filters, in order. */
function chosenFeatures(query) {
  const key = query.get("sort") || "expected";
  const state = query.get("state") || "alive";
  const wanted = query.get("class");
  const text = (query.get("find") || "").trim().toLowerCase();
  return sorted(key, query.get("order") === "up").filter((feature) => {
    if (state !== "all" && stateOf(feature) !== state) return false;
    if (wanted !== null && features.main_class[feature] !== Number(wanted)) return false;
    if (!text) return true;
    return (
      featureName(feature).toLowerCase().includes(text) ||
      text === String(feature) ||
      text === `#${feature}`
    );
  });
}

function gridResults(query) {
  const found = chosenFeatures(query);
  lastOrder = found;
  const nPages = Math.ceil(found.length / CARDS_A_PAGE);
  const page = Math.min(Number(query.get("page") || 0), Math.max(0, nPages - 1));
  const cards = found
    .slice(page * CARDS_A_PAGE, (page + 1) * CARDS_A_PAGE)
    .map((feature) => featureCard(feature, query.get("sort")));
  return [
    el("h2", {}, el("span", { role: "status" }, plural(found.length, "feature"))),
    cards.length
      ? el("div", { class: "cards" }, cards)
      : el("p", {}, "No feature fits these filters."),
    pager(page, nPages, (p) => changedHref("features", query, { page: p })),
  ];
}

function showFeatures(query) {
  const results = el("div", {});
  results.append(...el("div", {}, gridResults(query)).childNodes);
  const go = (changes) => {
    location.hash = changedHref("features", query, changes);
  };
  const dead = features.n_active.filter((n) => n === 0).length;
  const away = sorted("number").filter((feature) => stateOf(feature) === "changed").length;
  const classes = [...new Set(features.main_class)].filter((c) => c >= 0).sort((a, b) => a - b);
  const bar = el(
    "div",
    { class: "toolbar" },
    choice(
      "Sort by",
      [...SORTS.map(([key, words]) => [key, words]), ["number", "number"]],
      query.get("sort") || "expected",
      (value) => go({ sort: value === "expected" ? "" : value }),
    ),
    choice(
      "Order",
      [
        ["down", "largest first"],
        ["up", "smallest first"],
      ],
      query.get("order") || "down",
      (value) => go({ order: value === "down" ? "" : value }),
    ),
    hasLabels
      ? choice(
          "Class",
          [["", "all classes"], ...classes.map((c) => [c, className(c)])],
          query.get("class") ?? "",
          (value) => go({ class: value }),
        )
      : null,
    choice(
      "State",
      [
        ["alive", `alive (${count(content.n_features - dead - away)})`],
        ...(away ? [["changed", `hidden or merged (${count(away)})`]] : []),
        ["dead", `dead (${count(dead)})`],
        ["all", "all"],
      ],
      query.get("state") || "alive",
      (value) => go({ state: value === "alive" ? "" : value }),
    ),
    searchField("Name", query.get("find") || "", (value) => {
      // Typing changes the address without a new step back for each letter.
      const href = changedHref("features", query, { find: value });
      query = new URLSearchParams(href.split("?")[1] || "");
      noteAddress(href);
      results.replaceChildren(...el("div", {}, gridResults(query)).childNodes);
    }),
  );
  const words = [
    `On for: the share of ${samples.kind}s that activate it.`,
    `EA, expected activation: its mean strength over all ${samples.kind}s.`,
    hasLabels
      ? `Purity: the share of the commonest class among its ${content.min_active} strongest ${samples.kind}s. Bars are of the classes of all that activate it.`
      : "",
  ];
  return [
    el("h1", {}, "Features"),
    bar,
    el("p", { class: "legend" }, words.join(" ")),
    pickedBar(),
    results,
  ];
}
