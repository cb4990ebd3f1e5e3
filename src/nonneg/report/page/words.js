// The words of a feature: how often its texts hold them, what they add, and where they stand.

const words = content.words ? table(content.words) : null;

/** The telling words of a feature and of those merged into it: [{word, nTop, nAll, added}]. */
function wordsOf(feature) {
  if (!words) return [];
  const found = new Map();
  for (const member of membersOf(feature)) {
    for (let at = words.starts[member]; at < words.starts[member + 1]; at++) {
      const word = words.words[at];
      if (!found.has(word)) {
        found.set(word, { word, nTop: words.n_top[at], nAll: words.n_all[at], added: words.added[at] });
      }
    }
  }
  return [...found.values()];
}

const signed = (value) => (missing(value) ? "–" : `${value < 0 ? "−" : "+"}${decimal(Math.abs(value))}`);

// As Python counts them: what words consist of, what no phrase reaches across, and scripts without spaces.
const LETTER = "\\p{L}\\p{N}\\p{M}";
const GAP = `[^${LETTER}.,;:!?()<>|"\\n]+`;
const UNSPACED =
  /^[\p{Script=Han}\p{Script=Hiragana}\p{Script=Katakana}\p{Script=Thai}\p{Script=Lao}\p{Script=Myanmar}\p{Script=Khmer}]/u;

/** What finds the words of a feature in a text: whole words and phrases, in any case. */
function wordFinder(feature) {
  const known = wordsOf(feature);
  if (!known.length) return null;
  const plain = (word) => word.replace(/[.*+?^${}()|[\]\\]/g, "\\$&");
  const whole = (word) => {
    const parts = word.split(" ").map(plain).join(GAP);
    return UNSPACED.test(word) ? parts : `(?<![${LETTER}])${parts}(?![${LETTER}])`;
  };
  const longest = known.map(({ word }) => word).sort((a, b) => b.length - a.length);
  return {
    pattern: new RegExp(longest.map(whole).join("|"), "giu"),
    added: new Map(known.map(({ word, added }) => [word, added])),
  };
}

/** Parts of a text around the words that are found; a long text begins shortly before the first. */
function markedText(text, finder) {
  if (!finder) return [text];
  const parts = [];
  let at = 0;
  for (const match of text.matchAll(finder.pattern)) {
    const lower = match[0].toLowerCase();
    const added = finder.added.get(lower) ?? finder.added.get(lower.replace(new RegExp(GAP, "gu"), " "));
    const adds = `adds ${signed(added)}`;
    if (!parts.length && match.index > 180 && text.length > 360) {
      at = text.indexOf(" ", match.index - 90) + 1;
      parts.push("… ");
    }
    parts.push(text.slice(at, match.index), el("mark", { title: adds }, match[0]));
    at = match.index + match[0].length;
  }
  parts.push(text.slice(at));
  return parts;
}

function wordPart(feature) {
  const known = wordsOf(feature);
  if (!known.length) return null;
  const side = captions || samples;
  const highest = Math.max(...known.map(({ added }) => Math.abs(added) || 0));
  const nTop = Math.min(20, captionTop ? captionTop.n_active[feature] : features.n_active[feature]);
  const head = ["word", `in its ${nTop} strongest`, `in all ${count(side.n_all)}`, "adds", ""];
  return section(
    "Its words",
    `Adds: the mean strength of the feature in ${side.kind}s with the word, less that in ${side.kind}s without it${isMerged(feature) ? ", before it was merged" : ""}. In the texts below these words are marked.`,
    el(
      "div",
      { class: "wide" },
      el(
        "table",
        { class: "figures words-table" },
        el("thead", {}, el("tr", {}, head.map((text) => el(text ? "th" : "td", text ? { scope: "col" } : {}, text)))),
        el(
          "tbody",
          {},
          known.map(({ word, nTop: inTop, nAll, added }) =>
            el(
              "tr",
              {},
              el("th", { scope: "row" }, word),
              el("td", {}, count(inTop)),
              el("td", {}, count(nAll)),
              el("td", {}, signed(added)),
              el("td", { class: "plot" }, missing(added) ? null : meter(added, highest)),
            ),
          ),
        ),
      ),
    ),
  );
}
