// Served pages only: a box for a text or a row, its features, and the samples of the index like it.

const served = content.served || null;

/** The answer of the server; an error in words where there is none. */
async function answerTo(path, body) {
  let response;
  try {
    response = await fetch(path, {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: JSON.stringify(body),
    });
  } catch {
    throw new Error("The server does not answer.");
  }
  const answer = await response.json().catch(() => ({}));
  if (!response.ok) throw new Error(answer.error || `The server said ${response.status}.`);
  return answer;
}

/** What was typed, as the server reads it: a row of numbers, or a text. */
function typedInput(typed) {
  const text = typed.trim();
  const isRow = !served.reads_texts || /^\[[-+\s\d.,eE]*\]$/.test(text);
  if (!isRow) return { texts: [typed] };
  const parts = text.replace(/^\[|\]$/g, "").split(/[\s,;]+/).filter(Boolean);
  const numbers = parts.map(Number);
  const odd = numbers.findIndex((number) => !Number.isFinite(number));
  if (odd >= 0) throw new Error(`“${parts[odd]}” is no number.`);
  if (numbers.length !== served.n_inputs)
    throw new Error(`A row has ${count(served.n_inputs)} numbers, this one has ${count(numbers.length)}.`);
  return { vectors: [numbers] };
}

/** The server's name of a feature; in an atlas a link to it. */
function tryLink({ feature, name }) {
  const number = el("span", { class: "number" }, `#${feature}`);
  if (served.has_atlas) return el("a", { href: `#/feature/${feature}` }, name, number);
  return el("span", {}, name, number);
}

const MOST_TRIED = 30;

function triedFeatures({ shared }) {
  if (!shared.length) return el("p", { class: "quiet" }, "No feature is on.");
  const highest = Math.max(...shared.map(({ first }) => first));
  const more = shared.length - MOST_TRIED;
  return [
    el(
      "ul",
      { class: "rows leaves tried-features" },
      shared
        .slice(0, MOST_TRIED)
        .map((each) =>
          el(
            "li",
            {},
            tryLink(each),
            el("span", { class: "meter", "--share": (each.first / highest).toFixed(4) }),
            el("span", { class: "value" }, decimal(each.first)),
          ),
        ),
    ),
    more > 0 ? el("p", { class: "quiet" }, `and ${plural(more, "weaker feature")}`) : null,
  ];
}

/** Why a sample was found, asked for when it is opened. */
function whyFound(input, { id }) {
  const list = el("ul", { class: "because" });
  const details = el("details", {}, el("summary", {}, "Why?"), list);
  details.addEventListener("toggle", async () => {
    if (!details.open || list.childNodes.length) return;
    try {
      const { shared } = await answerTo("explain", { ...input, id });
      list.replaceChildren(
        ...shared.map((each) =>
          el("li", {}, tryLink(each), el("span", { class: "value" }, `+${decimal(each.contribution)}`)),
        ),
      );
    } catch (error) {
      list.replaceChildren(el("li", {}, error.message));
    }
  });
  return details;
}

function triedHits(input, hits) {
  if (!hits.length) return el("p", { class: "quiet" }, "No sample of the index shares a feature with it.");
  return el(
    "ol",
    { class: "tried-hits" },
    hits.map((hit) =>
      el(
        "li",
        {},
        el("span", {}, hit.text ? `${hit.text} ` : null, el("small", {}, `id ${hit.id}`)),
        el("span", { class: "value" }, `cosine ${decimal(hit.cosine)}`),
        whyFound(input, hit),
      ),
    ),
  );
}

async function showTried(typed, result) {
  try {
    const input = typedInput(typed);
    const [features, found] = await Promise.all([
      answerTo("explain", input),
      served.has_index ? answerTo("search", { ...input, k: 10 }) : null,
    ]);
    result.replaceChildren(
      el("h3", {}, "Its features"),
      ...[triedFeatures(features)].flat().filter(Boolean),
      ...(found ? [el("h3", {}, "The nearest samples of the index"), triedHits(input, found.hits[0])] : []),
    );
  } catch (error) {
    result.replaceChildren(el("p", { class: "changed", role: "alert" }, error.message));
  }
}

let tryBox = null; // stays when other parts of the page are shown

/** The box; null on a page from disk. */
function tryPart() {
  if (!served) return null;
  if (tryBox) return tryBox;
  const what = served.reads_texts ? "a text" : `a row of ${count(served.n_inputs)} numbers`;
  const field = el("textarea", { name: "typed", rows: 3, "aria-label": `Try ${what}`, required: true });
  const button = el("button", { class: "main" }, "Show its features");
  const result = el("div", { class: "tried", "aria-live": "polite" });
  const onsubmit = async (event) => {
    event.preventDefault();
    button.disabled = true;
    await showTried(field.value, result);
    button.disabled = false;
  };
  const form = el("form", { class: "try", onsubmit }, field, button);
  const more = served.reads_texts ? ` A row of ${count(served.n_inputs)} numbers in [ ] is read as a vector.` : "";
  tryBox = section(`Try ${what}`, `The server computes its features.${more}`, form, result);
  return tryBox;
}
