// Small charts, drawn by hand; what a colour says, words or shapes say too.

const COLOURS = ["var(--c0)", "var(--c1)", "var(--c2)", "var(--c3)", "var(--c4)", "var(--c5)"];
const DASHES = [null, "6 4", "2 3", "8 3 2 3"];

/** Bars of counts; where `mains` is given, its share of each bar is blue and the rest grey. */
function histogram(counts, { mains = null, width = 160, height = 40, label, low = "", high = "" }) {
  const top = Math.max(...counts, 1);
  // Roots of counts: the many weak activations would flatten all others.
  const tall = (n) => (n ? Math.max(1, Math.sqrt(n / top) * (height - 1)) : 0);
  const step = width / counts.length;
  const bars = [];
  counts.forEach((n, at) => {
    const all = tall(n);
    const main = mains && n ? (all * mains[at]) / n : mains ? 0 : all;
    const box = { x: (at * step).toFixed(1), width: Math.max(1, step - 1).toFixed(1) };
    if (all > main) {
      const rest = { y: (height - all).toFixed(1), height: (all - main).toFixed(1) };
      bars.push(svg("rect", { ...box, ...rest, class: "bar rest" }));
    }
    if (main) {
      const share = { y: (height - main).toFixed(1), height: main.toFixed(1) };
      bars.push(svg("rect", { ...box, ...share, class: "bar" }));
    }
  });
  const axis = svg("line", { x1: 0, x2: width, y1: height, y2: height, class: "axis" });
  if (!low && !high) return drawing(width, height + 1, label, bars, axis);
  const ends = [
    svg("text", { x: 0, y: height + 13, class: "tick" }, low),
    svg("text", { x: width, y: height + 13, class: "tick", "text-anchor": "end" }, high),
  ];
  return drawing(width, height + 16, label, bars, axis, ends);
}

/** Shares of a whole as one bar, the largest part first, with the first ones in words. */
function mixBar(parts, nWords = 2) {
  if (!parts.length) return null;
  const rest = 1 - parts.reduce((sum, part) => sum + part.share, 0);
  const pieces = parts.map((part, at) =>
    el("span", { class: `piece p${at}`, "--share": part.share.toFixed(4) }),
  );
  if (rest > 0.001) pieces.push(el("span", { class: "piece other", "--share": rest.toFixed(4) }));
  const words = parts
    .slice(0, nWords)
    .filter((part) => part.share >= 0.005)
    .map((part) => el("span", {}, `${classWords(part.label)} ${Math.round(100 * part.share)} %`));
  return el(
    "div",
    { class: "mix" },
    el("div", { class: "mixbar", "aria-hidden": "true" }, pieces),
    el("div", { class: "mixwords" }, words),
  );
}

/** A value between 0 and 1 as a horizontal bar; negative values are hatched. */
function meter(value, highest = 1) {
  const share = Math.min(1, Math.abs(value) / (highest || 1));
  return el("span", { class: value < 0 ? "meter negative" : "meter", "--share": share.toFixed(4) });
}

/** Values of several methods on one line from 0 to 1, with chance as a hollow diamond. */
function dotRow(cells, methods) {
  const [width, height, middle] = [170, 22, 11];
  const at = (value) => 8 + (width - 16) * Math.min(1, Math.max(0, value));
  const parts = [svg("line", { x1: 8, x2: width - 8, y1: middle, y2: middle, class: "axis" })];
  const words = [];
  methods.forEach((method, number) => {
    const cell = cells[method];
    if (!cell || missing(cell.value)) return;
    const { null: chance, low, high } = cell.beside;
    const colour = { fill: COLOURS[number], stroke: COLOURS[number] };
    if (!missing(chance)) {
      const x = at(chance);
      const d = `M${x} ${middle - 5}l5 5l-5 5l-5 -5z`;
      parts.push(svg("path", { d, fill: "none", stroke: COLOURS[number] }));
      words.push(`${method} by chance ${decimal(chance)}`);
    }
    if (!missing(low)) {
      const ends = { x1: at(low), x2: at(high), y1: middle, y2: middle };
      parts.push(svg("line", { ...ends, ...colour, "stroke-width": 4 }));
    }
    const x = at(cell.value);
    const shape =
      number % 2 === 0
        ? svg("circle", { cx: x, cy: middle, r: 5, ...colour })
        : svg("rect", { x: x - 4.5, y: middle - 4.5, width: 9, height: 9, ...colour });
    parts.push(shape);
    words.push(`${method} ${decimal(cell.value)}`);
  });
  return drawing(width, height, words.join(", "), parts);
}

const tickText = (t) =>
  Number(t.toPrecision(3)).toLocaleString("en-US", { maximumFractionDigits: 6 });

function niceTicks(low, high, n = 4) {
  if (!(high > low)) return [low];
  const raw = (high - low) / n;
  const size = 10 ** Math.floor(Math.log10(raw));
  const step = [1, 2, 2.5, 5, 10].map((m) => m * size).find((s) => s >= raw);
  const ticks = [];
  for (let t = Math.ceil(low / step) * step; t <= high + step * 1e-9; t += step) ticks.push(t);
  return ticks;
}

/**
 * Lines through points, told apart by colour, dashes and their names at the end.
 * `lines` is [{name, points: [[x, y]], band: [[x, low, high]]}], `levels` is [{name, y}].
 */
function lineChart(
  lines,
  { width = 380, height = 220, label, xLabel, levels = [], logX = false, zero = false, xText = count },
) {
  const longest = Math.max(...[...lines, ...levels].map(({ name }) => name.length));
  const [left, right, top, bottom] = [46, 14 + 6.8 * longest, 12, 34];
  const points = lines.flatMap((line) => line.points);
  const xs = points.map(([x]) => (logX ? Math.log10(x) : x));
  const bands = lines.flatMap((line) => line.band || []).flatMap(([, low, high]) => [low, high]);
  const ys = points.map(([, y]) => y).concat(levels.map((level) => level.y), bands);
  let [x0, x1] = [Math.min(...xs), Math.max(...xs)];
  let [y0, y1] = [Math.min(...ys, zero ? 0 : Infinity), Math.max(...ys)];
  if (x0 === x1) [x0, x1] = [x0 - 0.5, x1 + 0.5];
  if (y0 === y1) [y0, y1] = [y0 - Math.abs(y0) * 0.1 - 0.01, y1 + Math.abs(y1) * 0.1 + 0.01];
  const px = (x) => left + (((logX ? Math.log10(x) : x) - x0) / (x1 - x0)) * (width - left - right);
  const py = (y) => top + (1 - (y - y0) / (y1 - y0)) * (height - top - bottom);
  const parts = [];
  for (const t of niceTicks(y0, y1)) {
    const y = py(t);
    parts.push(svg("line", { x1: left, x2: width - right, y1: y, y2: y, class: "gridline" }));
    parts.push(
      svg("text", { x: left - 6, y: y + 4, class: "tick", "text-anchor": "end" }, tickText(t)),
    );
  }
  const xTicks = logX
    ? [...new Set(points.map(([x]) => x))]
    : niceTicks(x0, x1).filter(Number.isInteger);
  for (const t of xTicks) {
    parts.push(
      svg("text", { x: px(t), y: height - 17, class: "tick", "text-anchor": "middle" }, xText(t)),
    );
  }
  const middle = left + (width - left - right) / 2;
  parts.push(
    svg("text", { x: middle, y: height - 3, class: "tick", "text-anchor": "middle" }, xLabel),
  );
  for (const level of levels) {
    const y = py(level.y);
    parts.push(svg("line", { x1: left, x2: width - right, y1: y, y2: y, class: "level" }));
    parts.push(svg("text", { x: width - right + 6, y: y + 4, class: "tick level" }, level.name));
  }
  let lowest = -Infinity; // names at the ends must not lie on each other
  const ends = lines
    .map((line, number) => ({ line, number, y: py(line.points[line.points.length - 1][1]) }))
    .sort((a, b) => a.y - b.y);
  for (const { line, number, y } of ends) {
    const colour = COLOURS[number % COLOURS.length];
    if (line.band) {
      const edge = (side) => line.band.map((point) => `${px(point[0])} ${py(point[side])}`);
      const around = [...edge(2), ...edge(1).reverse()];
      parts.push(svg("path", { d: `M${around.join("L")}z`, class: "band-area" }));
    }
    const d = line.points.map(
      ([x, v], at) => `${at ? "L" : "M"}${px(x).toFixed(1)} ${py(v).toFixed(1)}`,
    );
    const dash = DASHES[number % DASHES.length];
    parts.push(
      svg("path", { d: d.join(""), class: "line", stroke: colour, "stroke-dasharray": dash }),
    );
    if (line.points.length < 30) {
      for (const [x, v] of line.points) {
        parts.push(svg("circle", { cx: px(x), cy: py(v), r: 2.5, fill: colour }));
      }
    }
    lowest = Math.max(y + 4, lowest + 13);
    parts.push(
      svg("text", { x: width - right + 6, y: lowest, class: "name", fill: colour }, line.name),
    );
  }
  return drawing(width, height, label, parts);
}
