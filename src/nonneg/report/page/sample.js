// The page of one sample: its active features, and what two samples share.

const FIRST_FEATURES = 20;

function featureRow(feature, value, highest, beside) {
  return el(
    "li",
    {},
    el(
      "a",
      { href: `#/feature/${feature}` },
      featureName(feature),
      el("span", { class: "number" }, `#${feature}`),
    ),
    samples.image_sheets ? strip(samples, strongest(feature).numbers, 5, 28) : null,
    meter(value, highest),
    el("span", { class: "value" }, value.toFixed(3)),
    beside,
  );
}

function activeList(side, number) {
  const active = side.active(number);
  if (!active.length) return el("p", { class: "quiet" }, "No feature is active for it.");
  const highest = Math.abs(active[0].value);
  const rows = active.map(({ feature, value }) => featureRow(feature, value, highest, null));
  const first = el("ul", { class: "rows" }, rows.slice(0, FIRST_FEATURES));
  if (rows.length <= FIRST_FEATURES) return first;
  return el(
    "div",
    {},
    first,
    el(
      "details",
      {},
      el("summary", {}, `${count(rows.length - FIRST_FEATURES)} weaker ones`),
      el("ul", { class: "rows" }, rows.slice(FIRST_FEATURES)),
    ),
  );
}

const matchHref = (here, i, there, j) =>
  `#/match/${here.route}/${here.number(i)}/${there.route}/${there.number(j)}`;

/** Another sample, how alike it is, and the features that make most of it. */
function neighbourCard(here, i, there, { number, cosine, place = null }) {
  const shared = contributions(here, i, there, number);
  const words = shared
    .slice(0, 3)
    .map(({ feature, part }) =>
      el(
        "li",
        {},
        el(
          "a",
          { href: `#/feature/${feature}` },
          featureName(feature),
          el("span", { class: "number" }, `#${feature}`),
        ),
        el("span", { class: "value" }, part.toFixed(2)),
      ),
    );
  return el(
    "article",
    { class: "card neighbour" },
    tile(there, number, { size: 72 }),
    el(
      "div",
      {},
      el(
        "a",
        { class: "why", href: matchHref(here, i, there, number) },
        `${cosine.toFixed(2)} · why?`,
      ),
      place ? el("small", { class: "place" }, `place ${count(place)} of ${count(there.n)}`) : null,
      el("ul", { class: "because" }, words),
    ),
  );
}

function neighbourPart(here, i, there, title, k) {
  const found = neighbours(here, i, there, k);
  const cards = found.map((entry) => neighbourCard(here, i, there, entry));
  const none = el("p", { class: "quiet" }, "It shares a feature with none.");
  return section(
    title,
    "By the cosine of the features; each shared feature adds its part.",
    cards.length ? el("div", { class: "cards" }, cards) : none,
  );
}

/** What belongs to a sample, the nearest first, and whether its features would have found it. */
function belongsTogether(side, number) {
  if (!captions || !captions.pair) return null;
  const there = side === captions ? samples : captions;
  const own = [];
  if (side === captions) {
    if (captions.pair[number] >= 0) own.push(captions.pair[number]);
  } else {
    for (let c = 0; c < captions.n; c++) if (captions.pair[c] === number) own.push(c);
  }
  if (!own.length) return null;
  const scores = cosines(side, number, there);
  const entries = own.map((other) => ({
    number: other,
    cosine: scores[other],
    place: scores.reduce((place, score) => place + (score > scores[other]), 1),
  }));
  entries.sort((a, b) => b.cosine - a.cosine);
  return section(
    `Its ${there.kind}${side === captions ? "" : "s"}`,
    `With the place among all ${count(there.n)} ${there.kind}s by the cosine of the features.`,
    el(
      "div",
      { class: "cards" },
      entries.map((entry) => neighbourCard(side, number, there, entry)),
    ),
  );
}

function showSample(side, number) {
  if (number < 0) return notFound("There is no such sample on this page.");
  const other = sides.find((candidate) => candidate !== side);
  return [
    el(
      "p",
      { class: "crumbs" },
      el("a", { href: "#/samples" }, "Samples"),
      ` / ${side.called(number)}`,
    ),
    el(
      "h1",
      {},
      side.called(number),
      side.label(number) ? el("span", { class: "label" }, side.label(number)) : null,
    ),
    el(
      "div",
      { class: "split" },
      el(
        "div",
        { class: "portrait" },
        side.image_sheets ? thumbnail(side, number, 196) : null,
        side.texts ? el("blockquote", {}, side.texts[number]) : null,
        belongsTogether(side, number),
      ),
      section(
        "Its active features",
        side.kept_a_row
          ? `The ${side.kept_a_row} strongest; the page has no room for the others.`
          : `${plural(side.active(number).length, "feature")}; squares of the activations add up to 1.`,
        activeList(side, number),
      ),
    ),
    other ? neighbourPart(side, number, other, `Nearest ${other.kind}s`, 8) : null,
    neighbourPart(side, number, side, `Nearest ${side.kind}s`, other ? 8 : 12),
  ];
}

function showMatch(here, i, there, j) {
  if (i < 0 || j < 0) return notFound("There is no such pair on this page.");
  const shared = contributions(here, i, there, j);
  const cosine = shared.reduce((sum, { part }) => sum + part, 0);
  const highest = shared.length ? Math.abs(shared[0].part) : 1;
  return [
    el("p", { class: "crumbs" }, el("a", { href: here.href(i) }, here.called(i)), " / why alike"),
    el("h1", {}, "Why are these two alike?"),
    el(
      "div",
      { class: "two" },
      tile(here, i, { size: 140 }),
      el("strong", {}, `cosine ${cosine.toFixed(3)}`),
      tile(there, j, { size: 140 }),
    ),
    section(
      "The features that they share",
      shared.length
        ? `${plural(shared.length, "feature")}; the parts add up to the cosine of ${cosine.toFixed(3)}` +
            (here.kept_a_row || there.kept_a_row ? " over the features that the page holds." : ".")
        : "None: their cosine is 0.",
      el(
        "ul",
        { class: "rows match" },
        shared.map(({ feature, part, first, second }) =>
          featureRow(
            feature,
            part,
            highest,
            el("small", {}, `${first.toFixed(2)} × ${second.toFixed(2)}`),
          ),
        ),
      ),
    ),
  ];
}
