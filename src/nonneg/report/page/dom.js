// Elements of the page, made from code only: texts go in as text, never as HTML.

const SVG = "http://www.w3.org/2000/svg";

function fill(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes || {})) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else if (name.startsWith("--")) node.style.setProperty(name, value);
    else node.setAttribute(name, value === true ? "" : value);
  }
  for (const child of children.flat(Infinity)) {
    if (child !== null && child !== undefined && child !== false) node.append(child);
  }
  return node;
}

/** An HTML element; attributes that are null or false are left out. */
function el(tag, attributes, ...children) {
  return fill(document.createElement(tag), attributes, children);
}

/** An SVG element. */
function svg(tag, attributes, ...children) {
  return fill(document.createElementNS(SVG, tag), attributes, children);
}

/** A drawing that says in words what it shows. */
function drawing(width, height, label, ...children) {
  const box = { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": label };
  return svg("svg", { ...box, width, height }, svg("title", {}, label), ...children);
}

/** A part of a page with its heading. */
function section(title, explanation, ...children) {
  return el(
    "section",
    {},
    el("h2", {}, title),
    explanation ? el("p", { class: "quiet" }, explanation) : null,
    ...children,
  );
}

/** A drop-down list of [value, text] pairs. */
function choice(label, options, chosen, onchange) {
  const list = el("select", {
    "aria-label": label,
    onchange: (event) => onchange(event.target.value),
  });
  for (const [value, text] of options) {
    list.append(el("option", { value, selected: String(value) === String(chosen) }, text));
  }
  return el("label", { class: "field" }, el("span", {}, label), list);
}

/** A search field that tells every change. */
function searchField(label, value, oninput) {
  const field = el("input", { type: "search", value, autocomplete: "off", "aria-label": label });
  field.addEventListener("input", () => oninput(field.value));
  return el("label", { class: "field grow" }, el("span", {}, label), field);
}

/** Links to the pages of a long list, by page number from 0. */
function pager(page, nPages, href) {
  if (nPages < 2) return null;
  const wanted = new Set([0, nPages - 1]);
  for (let p = page - 2; p <= page + 2; p++) if (p >= 0 && p < nPages) wanted.add(p);
  const parts = [];
  let last = -1;
  for (const p of [...wanted].sort((a, b) => a - b)) {
    if (p > last + 1) parts.push(el("span", { class: "quiet" }, "…"));
    const current = p === page ? "page" : null;
    parts.push(el("a", { href: href(p), "aria-current": current }, String(p + 1)));
    last = p;
  }
  return el("nav", { class: "pager", "aria-label": "Pages" }, parts);
}

/** The address of a part with some of its settings changed, from its first page on. */
function changedHref(part, query, changes) {
  const next = new URLSearchParams(query);
  for (const [key, value] of Object.entries({ page: "", ...changes })) {
    if (value === "" || value === null) next.delete(key);
    else next.set(key, value);
  }
  const text = next.toString();
  return `#/${part}${text ? `?${text}` : ""}`;
}

/** Put an address into the bar without a new step back: for fields that change with each key. */
function noteAddress(href, state = history.state) {
  try {
    history.replaceState(state, "", href);
  } catch {
    // Some browsers allow few such changes a minute; the page is right without it.
  }
}

const missing = (value) => value === null || value === undefined || Number.isNaN(value);

const count = (value) => value.toLocaleString("en-US");

const percent = (value) => (missing(value) ? "–" : `${(100 * value).toFixed(1)} %`);

/** Three digits that count; what is too small to count is 0. */
function decimal(value) {
  if (missing(value)) return "–";
  if (Math.abs(value) < 1e-6) return "0";
  if (Math.abs(value) >= 100) return value.toLocaleString("en-US", { maximumFractionDigits: 1 });
  return Math.abs(value) < 0.001 ? value.toPrecision(2) : value.toPrecision(3);
}

/** A word for one and for several. */
const plural = (n, word) => `${count(n)} ${word}${n === 1 ? "" : "s"}`;
