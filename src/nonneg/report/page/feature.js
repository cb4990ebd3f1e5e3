// The page of one feature: its samples from the strongest to the weakest, and its company.

function featureFacts(feature) {
  const rows = [
    ["expected activation", decimal(features.expected[feature])],
    [
      captionTop ? `on for ${samples.kind}s` : "on for",
      `${plural(features.n_active[feature], samples.kind)}, ${percent(features.n_active[feature] / content.n_samples)}`,
    ],
    ["largest activation", decimal(features.highest[feature])],
  ];
  if (hasLabels) {
    const purity = features.purity[feature];
    const words = Number.isNaN(purity)
      ? `fewer than ${content.min_active} active`
      : purity.toFixed(2);
    rows.push([`purity of the top ${content.min_active}`, words]);
  }
  if (monosemanticity) rows.push(["monosemanticity", decimal(monosemanticity[feature])]);
  if (sepin) rows.push(["SEP", `${decimal(sepin[feature])} nats`]);
  if (captionTop) {
    const n = captionTop.n_active[feature];
    rows.splice(2, 0, ["on for captions", `${plural(n, "caption")}, ${percent(n / captions.n_all)}`]);
    const { agreement } = captionTop;
    if (agreement) rows.push(["agreement of both sides", decimal(agreement[feature])]);
  }
  return el(
    "dl",
    { class: "facts-list" },
    rows.map(([term, value]) => el("div", {}, el("dt", {}, term), el("dd", {}, value))),
  );
}

/** How many samples each band of activation has, and how many of them are of the main class. */
function certainty(those, feature) {
  const counts = row(those.histogram, feature, false);
  const mains = those.main_histogram ? row(those.main_histogram, feature, false) : counts;
  const nBands = those.spread.shape[1];
  const width = counts.length / nBands;
  return Array.from({ length: nBands }, (_, band) => {
    let [all, main] = [0, 0];
    for (let at = band * width; at < (band + 1) * width; at++) {
      all += counts[at];
      main += mains[at];
    }
    return { all, main };
  });
}

/** Samples of one kind from each band of activation; `those` is what is known of the features. */
function spreadRows(side, those, feature, finder) {
  const bands = certainty(those, feature);
  const highest = those.highest[feature];
  const perBand = those.spread.shape[2];
  const all = row(those.spread, feature, false);
  const main = className(features.main_class[feature]);
  return bands
    .map(({ all: n, main: nMain }, band) => {
      const numbers = all.subarray(band * perBand, (band + 1) * perBand).filter((i) => i >= 0);
      if (!n) return null;
      const bound = (b) => (b ? ((b / bands.length) * highest).toPrecision(2) : "0");
      const share =
        hasLabels && side === samples
          ? el("small", {}, `${Math.round((100 * nMain) / n)} % ${classWords(main)}`)
          : null;
      return el(
        "div",
        { class: "band" },
        el(
          "div",
          { class: "band-head" },
          el("strong", {}, `${bound(band)} to ${bound(band + 1)}`),
          el("small", {}, plural(n, side.kind)),
          share,
        ),
        gallery(side, numbers, {
          mark: !side.image_sheets,
          size: captionTop ? 64 : undefined,
          finder,
        }),
      );
    })
    .reverse();
}

function partnerList(feature) {
  const known = row(space.partner_cosines, feature, false);
  const company = [...row(space.partners, feature)]
    .map((other, at) => ({ other, cosine: known[at] }))
    .filter(({ other }) => isListed(other));
  if (!company.length)
    return el("p", { class: "quiet" }, "No other feature fires for its samples.");
  return el(
    "ul",
    { class: "rows partners" },
    company.map(({ other, cosine }) =>
      el(
        "li",
        {},
        el(
          "a",
          { href: `#/feature/${other}` },
          featureName(other),
          el("span", { class: "number" }, `#${other}`),
        ),
        strip(samples, row(features.top, other), samples.image_sheets ? 6 : 1, 32),
        meter(cosine),
        el("span", { class: "value" }, cosine.toFixed(2)),
      ),
    ),
  );
}

function seedPart(feature) {
  if (!otherSeed) return null;
  const partner = otherSeed.partner[feature];
  if (partner < 0) return section("In another seed", "It has no partner there.");
  const cosine = otherSeed.cosine[feature];
  const verdict = cosine >= 0.8 ? "it returns" : "it does not return (below 0.80)";
  return section(
    "In another seed",
    `Its partner there is feature ${partner}, cosine ${cosine.toFixed(2)}: ${verdict}.`,
    gallery(samples, row(otherSeed.top, partner), { mark: !samples.image_sheets }),
  );
}

function exceptionsPart(feature, finder) {
  if (!hasLabels) return null;
  const main = className(features.main_class[feature]);
  return section(
    "Its strongest exceptions",
    `Where it is surest of itself and the class is not ${main}.`,
    gallery(samples, row(features.exceptions, feature), { finder }),
  );
}

function captionPart(feature, finder) {
  if (!captionTop || !captionTop.n_active[feature]) return null;
  return section(
    "Its strongest captions",
    null,
    gallery(captions, row(captionTop.top, feature).slice(0, 12), {
      strengths: row(captionTop.top_strength, feature, false),
      finder,
    }),
  );
}

function around(feature) {
  const order =
    lastOrder && lastOrder.includes(feature) ? lastOrder : sorted("expected").filter(isListed);
  const at = order.indexOf(feature);
  const to = (other, words) =>
    other === undefined
      ? null
      : el(
          "a",
          { href: `#/feature/${other}`, "aria-label": `${words} feature` },
          words === "previous" ? "← previous" : "next →",
        );
  return el(
    "nav",
    { class: "around", "aria-label": "Features around" },
    to(order[at - 1], "previous"),
    to(order[at + 1], "next"),
  );
}

const mapLink = (feature) =>
  el("p", {}, el("a", { href: `#/map?feature=${feature}` }, `All its ${samples.kind}s on the map →`));

/** A feature that was merged or hidden: what was done, and what the page can tell of it. */
function changedFeature(feature) {
  if (!isListed(feature)) return [changedWords(feature)];
  const { numbers, strengths } = strongest(feature);
  const finder = wordFinder(feature);
  return [
    changedWords(feature),
    featureTools(feature),
    wordPart(feature),
    section(
      `Its strongest ${samples.kind}s`,
      null,
      gallery(samples, numbers, { strengths, finder }),
      mapLink(feature),
    ),
  ];
}

function showFeature(feature) {
  if (!(feature >= 0 && feature < content.n_features))
    return notFound(`There is no feature ${feature}.`);
  const head = [
    el(
      "p",
      { class: "crumbs" },
      el("a", { href: "#/features" }, "Features"),
      ` / #${feature}`,
      around(feature),
    ),
    el("h1", {}, featureName(feature), el("span", { class: "number" }, `#${feature}`)),
  ];
  if (isDead(feature))
    return [head, el("p", {}, `This feature is dead. ${deadWords(feature)}`), captionPart(feature)];
  if (!isListed(feature) || isMerged(feature)) return [head, changedFeature(feature)];
  const top = row(features.top, feature);
  const strengths = row(features.top_strength, feature, false);
  const finder = wordFinder(feature);
  const big = { width: 320, height: 90, low: "0", high: decimal(features.highest[feature]) };
  const main = className(features.main_class[feature]);
  return [
    head,
    featureTools(feature),
    el(
      "div",
      { class: "split" },
      featureFacts(feature),
      el(
        "figure",
        {},
        activationHistogram(feature, big),
        el(
          "figcaption",
          {},
          `Activations of its ${samples.kind}s, heights by the square root of their number`,
          hasLabels ? `; blue: ${classWords(main)}, grey: all others` : "",
          ".",
        ),
        hasLabels ? mixBar(classMix(feature), 4) : null,
      ),
    ),
    wordPart(feature),
    el(
      "div",
      { class: captions ? "pairwise" : "" },
      section(
        `Its strongest ${samples.kind}s`,
        null,
        gallery(samples, top, { strengths, finder }),
        mapLink(feature),
      ),
      captionPart(feature, finder),
    ),
    section(
      "Over its whole range",
      "Not only the maximum, which flatters: examples from each fifth of its activations, from the surest to the least sure.",
      el(
        "div",
        { class: captionTop ? "pairwise" : "" },
        el("div", { class: "bands" }, spreadRows(samples, features, feature, finder)),
        captionTop
          ? el("div", { class: "bands" }, spreadRows(captions, captionTop, feature, finder))
          : null,
      ),
    ),
    exceptionsPart(feature, finder),
    timePart(feature),
    section(
      "Features that fire with it",
      `By the cosine of the two features over all ${samples.kind}s.`,
      partnerList(feature),
    ),
    seedPart(feature),
  ];
}
