// What the reader changes: names, merged and hidden features; kept by the browser, saved as a file.

const CHANGES_KEY = `nonneg-changes-${content.key}`;
const changes = { rename: new Map(), merge: [], hide: new Set() };
const undone = []; // what the changes were before each step, the last one at the end
const picked = new Set(); // features whose boxes are ticked
let isDownloaded = true;
let isKept = true; // by the browser
let leaders = new Map(); // from a feature that was merged to the one that stays

/** The changes as the file holds them. */
function changesFile() {
  return {
    nonneg: "changes",
    rename: Object.fromEntries(changes.rename),
    merge: changes.merge.map((group) => [...group]),
    hide: [...changes.hide].sort((a, b) => a - b),
  };
}

const nChanges = () => changes.rename.size + changes.merge.length + changes.hide.size;

const isFeature = (f) => Number.isInteger(f) && f >= 0 && f < content.n_features;

/** Put the values of a file into place, leaving out what does not fit these features. */
function takeChanges({ rename = {}, merge = [], hide = [] }) {
  const names = Object.entries(rename).map(([f, name]) => [Number(f), String(name)]);
  changes.rename = new Map(names.filter(([f]) => isFeature(f)));
  changes.merge = merge.map((group) => group.filter(isFeature)).filter((group) => group.length > 1);
  changes.hide = new Set(hide.filter(isFeature));
  leaders = new Map(changes.merge.flatMap((group) => group.map((f) => [f, group[0]])));
  const target = Int32Array.from({ length: content.n_features }, (_, f) =>
    changes.hide.has(leaderOf(f)) ? -1 : leaderOf(f),
  );
  for (const side of sides) side.put(nChanges() ? target : null);
}

/** The feature that stands for this one: itself, or the first of those it was merged with. */
function leaderOf(feature) {
  return leaders.has(feature) ? leaders.get(feature) : feature;
}

/** The features that one stands for, itself first. */
const membersOf = (feature) => changes.merge.find((group) => group[0] === feature) || [feature];

const isMerged = (feature) => membersOf(feature).length > 1;

/** Whether a feature is in lists: alive, not hidden, and not merged into another. */
const isListed = (feature) =>
  !isDead(feature) && leaderOf(feature) === feature && !changes.hide.has(feature);

function keepChanges() {
  try {
    localStorage.setItem(CHANGES_KEY, JSON.stringify(changesFile()));
    isKept = true;
  } catch {
    isKept = false; // some browsers keep nothing for pages from disk
  }
}

/** Change something, so that it can be undone; `words` are told to screen readers. */
function change(words, step) {
  undone.push(changesFile());
  step();
  takeChanges(changesFile());
  isDownloaded = nChanges() === 0;
  keepChanges();
  showAgain(words);
}

function undoChange() {
  if (!undone.length) return;
  takeChanges(undone.pop());
  isDownloaded = nChanges() === 0;
  keepChanges();
  showAgain("Undone.");
}

/** Draw the part anew and say what was done; the keyboard goes on from the heading. */
function showAgain(words) {
  show();
  const heading = document.querySelector("main h1");
  heading.tabIndex = -1;
  heading.focus({ preventScroll: true });
  document.getElementById("said").textContent = words;
}

function renameFeature(feature, name) {
  const given = name.trim();
  change(given ? `Renamed to ${given}.` : "The old name is back.", () => {
    if (given && given !== features.names[feature]) changes.rename.set(feature, given);
    else changes.rename.delete(feature);
  });
}

/** Make several features one, that of the first; groups that share a feature become one. */
function mergeFeatures(numbers) {
  const all = [...new Set(numbers.flatMap((f) => membersOf(leaderOf(f))))];
  if (all.length < 2) return;
  picked.clear();
  change(`${plural(all.length, "feature")} merged.`, () => {
    changes.merge = changes.merge.filter((group) => !all.includes(group[0]));
    changes.merge.push(all);
    for (const f of all.slice(1)) changes.rename.delete(f);
    for (const f of all) changes.hide.delete(f);
  });
}

function hideFeatures(numbers) {
  const all = [...numbers];
  picked.clear();
  change(`${plural(all.length, "feature")} hidden.`, () => {
    for (const f of all) changes.hide.add(f);
  });
}

function downloadChanges() {
  const text = `${JSON.stringify(changesFile(), null, 2)}\n`;
  const href = URL.createObjectURL(new Blob([text], { type: "application/json" }));
  el("a", { href, download: "changes.json" }).click();
  setTimeout(() => URL.revokeObjectURL(href), 10_000);
  isDownloaded = true;
  showAgain("changes.json is downloaded.");
}

function startChanges() {
  try {
    const kept = localStorage.getItem(CHANGES_KEY);
    if (kept) takeChanges(JSON.parse(kept));
  } catch {
    isKept = false;
  }
  isDownloaded = nChanges() === 0;
  addEventListener("beforeunload", (event) => {
    if (!isDownloaded) event.preventDefault();
  });
}

/** Strongest samples of a feature; of a merged one they are found among the samples of the page. */
function strongest(feature) {
  if (!isMerged(feature)) {
    return { numbers: row(features.top, feature), strengths: row(features.top_strength, feature, false) };
  }
  const { starts, rows, values } = samples.byFeature;
  const order = [];
  for (let at = starts[feature]; at < starts[feature + 1]; at++) order.push(at);
  order.sort((a, b) => Math.abs(values[b]) - Math.abs(values[a]));
  const first = order.slice(0, features.top.shape[1]);
  return {
    numbers: Int32Array.from(first, (at) => rows[at]),
    strengths: Float32Array.from(first, (at) => Math.abs(values[at]) / SCALE),
  };
}
