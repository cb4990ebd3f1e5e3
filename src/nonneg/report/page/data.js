// The data of the page: the embedded arrays, and what follows from them.

const content = JSON.parse(document.getElementById("content").textContent);

const ARRAYS = {
  int8: Int8Array,
  uint8: Uint8Array,
  int16: Int16Array,
  uint16: Uint16Array,
  int32: Int32Array,
  uint32: Uint32Array,
  float32: Float32Array,
};
const SCALE = 32767;

function bytesOf(base64) {
  if (Uint8Array.fromBase64) return Uint8Array.fromBase64(base64);
  const text = atob(base64);
  const bytes = new Uint8Array(text.length);
  for (let i = 0; i < text.length; i++) bytes[i] = text.charCodeAt(i);
  return bytes;
}

/** The typed array that Python packed, with its shape; null stays null. */
function unpacked(packed) {
  if (!packed) return null;
  const array = new ARRAYS[packed.type](bytesOf(packed.data).buffer);
  array.shape = packed.shape;
  return array;
}

/** Row i of a matrix, without its padding of -1 where `padded`. */
function row(matrix, i, padded = true) {
  const width = matrix.shape.slice(1).reduce((a, b) => a * b, 1);
  const part = matrix.subarray(i * width, (i + 1) * width);
  return padded ? part.filter((number) => number >= 0) : part;
}

/** Unpack every packed array of a table, and leave the rest as it is. */
function table(values) {
  if (!values) return null;
  const unpack = ([key, value]) => [key, value && value.shape ? unpacked(value) : value];
  return Object.fromEntries(Object.entries(values).map(unpack));
}

/** Rows with some features put into others, by the root of the sum of squares, or left out (-1). */
function mergedRows({ starts, columns, values }, target) {
  const n = starts.length - 1;
  const made = { starts: new Int32Array(n + 1), columns: [], values: [] };
  for (let i = 0; i < n; i++) {
    const sums = new Map();
    for (let at = starts[i]; at < starts[i + 1]; at++) {
      const to = target[columns[at]];
      if (to < 0) continue;
      // A feature that stays alone keeps its sign.
      sums.set(to, sums.has(to) ? Math.hypot(sums.get(to), values[at]) : values[at]);
    }
    for (const [to, value] of sums) {
      made.columns.push(to);
      made.values.push(Math.min(SCALE, Math.round(value)));
    }
    made.starts[i + 1] = made.columns.length;
  }
  return { ...made, columns: Uint16Array.from(made.columns), values: Int16Array.from(made.values) };
}

/** Samples of one kind: sparse rows of activations, read by sample or by feature. */
class Side {
  constructor(values, route) {
    Object.assign(this, table(values));
    this.given = { starts: this.starts, columns: this.columns, values: this.values };
    this.route = route;
  }

  /** Put each feature's activations into another's, or away (-1); null brings back what was given. */
  put(target) {
    this.transposed = null;
    Object.assign(this, target ? mergedRows(this.given, target) : this.given);
  }

  /** Active features of sample i, strongest first: [{feature, value}]. */
  active(i) {
    const found = [];
    for (let at = this.starts[i]; at < this.starts[i + 1]; at++) {
      found.push({ feature: this.columns[at], value: this.values[at] / SCALE });
    }
    return found.sort((a, b) => Math.abs(b.value) - Math.abs(a.value));
  }

  /** The same entries by feature, made when first asked for. */
  get byFeature() {
    if (this.transposed) return this.transposed;
    const starts = new Int32Array(content.n_features + 1);
    for (const column of this.columns) starts[column + 1]++;
    for (let f = 0; f < content.n_features; f++) starts[f + 1] += starts[f];
    const next = starts.slice();
    const rows = new Int32Array(this.columns.length);
    const values = new Int16Array(this.columns.length);
    for (let i = 0; i < this.n; i++) {
      for (let at = this.starts[i]; at < this.starts[i + 1]; at++) {
        const place = next[this.columns[at]]++;
        rows[place] = i;
        values[place] = this.values[at];
      }
    }
    this.transposed = { starts, rows, values };
    return this.transposed;
  }

  label(i) {
    return this.labels ? className(this.labels[i]) : "";
  }

  /** The number of sample i in its own file or set, of which the page may hold a part only. */
  number(i) {
    return this.numbers ? this.numbers[i] : i;
  }

  /** Which sample of the page has this number; -1 where none has. */
  place(number) {
    if (this.numbers) return this.numbers.indexOf(number);
    return number >= 0 && number < this.n && Number.isInteger(number) ? number : -1;
  }

  /** What a sample is called: its id, or its number. */
  called(i) {
    return this.ids ? this.ids[i] : `${this.kind} ${this.number(i)}`;
  }

  /** Its address, which stays the same whatever part of the set a page holds. */
  href(i) {
    return `#/${this.route}/${this.number(i)}`;
  }
}

const sides = content.sides.map((values, s) => new Side(values, s === 0 ? "sample" : "caption"));
const samples = sides[0];
const captions = sides[1] || null;
const features = table(content.features);
const space = table(content.space);
const against = table(content.against);
const otherSeed = table(content.seed);
const captionTop = table(content.captions);
const sepin = unpacked(content.sepin);
const monosemanticity = unpacked(content.monosemanticity);
const hasLabels = content.class_names.length > 0;

const className = (number) => (number < 0 ? "" : content.class_names[number]);

/** A class in a sentence: one that is only a number is called a class. */
const classWords = (name) => (/^\d+$/.test(name) ? `class ${name}` : name);

const isDead = (feature) => features.n_active[feature] === 0;

/** In words: that a feature is active for no sample, but perhaps for captions. */
function deadWords(feature) {
  const nCaptions = captionTop ? captionTop.n_active[feature] : 0;
  const but = nCaptions ? `, but for ${plural(nCaptions, "caption")}` : "";
  return `Active for no ${samples.kind}${but}.`;
}

const featureName = (feature) =>
  changes.rename.get(feature) ||
  features.names[feature] || (isDead(feature) ? "dead" : `feature ${feature}`);

/** The cosine of sample i of `here` with every sample of `there`. */
function cosines(here, i, there) {
  const { starts, rows, values } = there.byFeature;
  const scores = new Float32Array(there.n);
  for (const { feature, value } of here.active(i)) {
    for (let at = starts[feature]; at < starts[feature + 1]; at++) {
      scores[rows[at]] += (value * values[at]) / SCALE;
    }
  }
  return scores;
}

/** The samples of `there` with the largest cosine to sample i of `here`: [{number, cosine}]. */
function neighbours(here, i, there, k) {
  const scores = cosines(here, i, there);
  const found = [];
  for (let number = 0; number < there.n; number++) {
    if (scores[number] <= 0 || (here === there && number === i)) continue;
    if (found.length === k && scores[number] <= found[k - 1].cosine) continue;
    found.push({ number, cosine: scores[number] });
    found.sort((a, b) => b.cosine - a.cosine);
    if (found.length > k) found.pop();
  }
  return found;
}

/** What each shared feature adds to the cosine of two samples, the largest first. */
function contributions(here, i, there, j) {
  const second = new Map(there.active(j).map(({ feature, value }) => [feature, value]));
  return here
    .active(i)
    .filter(({ feature }) => second.has(feature))
    .map(({ feature, value }) => ({
      feature,
      first: value,
      second: second.get(feature),
      part: value * second.get(feature),
    }))
    .sort((a, b) => b.part - a.part);
}

/** Classes of a feature's active samples with their shares: [{label, share}]. */
function classMix(feature) {
  const total = features.n_active[feature];
  if (!hasLabels || !total) return [];
  const counts = row(features.mix_count, feature, false);
  return [...row(features.mix_class, feature, false)]
    .map((number, at) => ({ label: className(number), share: counts[at] / total }))
    .filter(({ share }) => share > 0);
}

/** The keys that features can be sorted by, those only that can be shown. */
const SORTS = [
  ["expected", "expected activation", features.expected],
  ["purity", "purity", hasLabels ? features.purity : null],
  ["frequency", "frequency", features.n_active],
  ["sepin", "SEPIN", sepin],
  ["monosemanticity", "monosemanticity", monosemanticity],
  ["agreement", "agreement of both sides", captionTop && captionTop.agreement],
  ["seed", "return in another seed", otherSeed && otherSeed.cosine],
].filter(([, , values]) => values);

/** Feature numbers by a key, largest first; what could not be measured comes last. */
function sorted(key, ascending) {
  const numbers = Array.from({ length: content.n_features }, (_, f) => f);
  const known = SORTS.find(([name]) => name === key);
  if (!known) return ascending ? numbers : numbers.reverse();
  const values = known[2];
  const sign = ascending ? -1 : 1;
  return numbers.sort((a, b) => {
    if (Number.isNaN(values[a]) !== Number.isNaN(values[b]))
      return Number.isNaN(values[a]) ? 1 : -1;
    return sign * (values[b] - values[a]) || features.expected[b] - features.expected[a] || a - b;
  });
}
