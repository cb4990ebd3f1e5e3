// Groups of features: those that fire together, joined two by two, cut where the reader likes.

const tree = table(content.tree);
const BRANCHES = 4;
const LEAVES = 8;
let nGroups = null; // as the slider was left

/** Numbers of the listed features under a node, strongest on average first. */
function leavesOf(node) {
  const m = tree.features.length;
  const [open, found] = [[node], []];
  while (open.length) {
    const one = open.pop();
    if (one >= m) open.push(tree.joins[2 * (one - m)], tree.joins[2 * (one - m) + 1]);
    else if (isListed(tree.features[one])) found.push(tree.features[one]);
  }
  return found.sort((a, b) => features.expected[b] - features.expected[a] || a - b);
}

/** The cosine at which a node was joined; a single feature is one with itself. */
const joinedAt = (node) =>
  node < tree.features.length ? 1 : tree.cosines[node - tree.features.length];

/** A node divided into at most n, always at the loosest join. */
function branches(node, n) {
  const m = tree.features.length;
  const parts = [node];
  while (parts.length < n) {
    const loosest = Math.max(...parts.filter((p) => p >= m), -1);
    if (loosest < 0) break;
    const at = parts.indexOf(loosest);
    parts.splice(at, 1, tree.joins[2 * (loosest - m)], tree.joins[2 * (loosest - m) + 1]);
  }
  return parts.map((part) => ({ node: part, members: leavesOf(part) })).filter((p) => p.members.length);
}

/** A group by the first words of its strongest features. */
function groupName(members, n = 3) {
  const firsts = members.map((f) => featureName(f).split(", ")[0]);
  return [...new Set(firsts)].slice(0, n).join(" · ");
}

function groupLeaves(members) {
  return el(
    "ul",
    { class: "rows leaves" },
    members.map((feature) =>
      el(
        "li",
        {},
        el(
          "a",
          { href: `#/feature/${feature}` },
          featureName(feature),
          el("span", { class: "number" }, `#${feature}`),
        ),
        meter(features.expected[feature], features.expected[space.map[0]]),
        el("span", { class: "value" }, percent(features.n_active[feature] / content.n_samples)),
      ),
    ),
  );
}

/** A group that opens: its branches, or its features where they are few. */
function groupNode({ node, members }) {
  if (members.length === 1) return groupLeaves(members);
  const box = el(
    "details",
    { class: "group" },
    el(
      "summary",
      {},
      el("strong", {}, groupName(members)),
      el("small", {}, `${plural(members.length, "feature")}, mean cosine ${joinedAt(node).toFixed(2)}`),
    ),
  );
  // Made when opened: there may be hundreds.
  box.addEventListener("toggle", () => {
    if (!box.open || box.children.length > 1) return;
    const parts = members.length > LEAVES ? branches(node, BRANCHES) : [];
    const alone = parts.filter((part) => part.members.length === 1).flatMap((part) => part.members);
    box.append(
      ...parts.filter((part) => part.members.length > 1).map(groupNode),
      groupLeaves(parts.length ? alone : members),
      members.length <= LEAVES
        ? el(
            "button",
            { type: "button", onclick: () => mergeFeatures(members) },
            `Merge these ${count(members.length)} features`,
          )
        : "",
    );
  });
  return box;
}

function groupList(n) {
  const parts = branches(2 * tree.features.length - 2, n);
  const total = ({ members }) => members.reduce((sum, f) => sum + features.expected[f], 0);
  parts.sort((a, b) => total(b) - total(a));
  const several = parts.filter(({ members }) => members.length > 1);
  const alone = parts.filter(({ members }) => members.length === 1).flatMap(({ members }) => members);
  return [
    several.map(groupNode),
    alone.length
      ? section(`${plural(alone.length, "feature")} on their own`, null, groupLeaves(alone))
      : null,
  ];
}

/** How many groups are shown: as the slider was left, at first the root of the number of features. */
const groupCount = () => nGroups ?? Math.max(2, Math.round(Math.sqrt(tree.features.length)));

function showGroups() {
  const most = Math.min(tree.features.length, 200);
  const list = el("div", { class: "tree" }, groupList(groupCount()));
  const told = el("output", {}, plural(groupCount(), "group"));
  const slider = el("input", {
    type: "range",
    min: 1,
    max: most,
    value: groupCount(),
    "aria-label": "Number of groups",
    oninput: () => {
      nGroups = Number(slider.value);
      told.textContent = plural(nGroups, "group");
      list.replaceChildren(...el("div", {}, groupList(nGroups)).childNodes);
    },
  });
  return [
    el("h1", {}, "Groups of features"),
    el(
      "p",
      { class: "lead" },
      `Features that fire for the same ${samples.kind}s are joined two by two, by the mean cosine between them (average linkage). Choose how many groups to see, and open them; the map can be coloured by them.`,
    ),
    el("div", { class: "toolbar" }, el("label", { class: "field grow" }, el("span", {}, "Number of groups"), slider), told),
    list,
  ];
}
