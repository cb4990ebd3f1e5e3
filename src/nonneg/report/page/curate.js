// The tools to change features: a box on each card, a bar on each feature's page, and the list.

/** A box that picks a feature for what the bar of the list offers. */
function pickBox(feature) {
  const box = el("input", {
    type: "checkbox",
    class: "pick",
    "aria-label": `Pick ${featureName(feature)} #${feature}`,
    onchange: () => {
      if (box.checked) picked.add(feature);
      else picked.delete(feature);
      for (const bar of document.querySelectorAll(".picked")) bar.replaceWith(pickedBar());
    },
  });
  box.checked = picked.has(feature);
  return box;
}

/** What can be done with the features that are picked. */
function pickedBar() {
  const numbers = [...picked];
  if (!numbers.length) {
    const words = "Pick features by their boxes to merge or hide them.";
    return el("div", { class: "picked quiet" }, words);
  }
  const unpick = () => {
    picked.clear();
    showAgain("No feature is picked.");
  };
  return el(
    "div",
    { class: "picked active", role: "group", "aria-label": "Picked features" },
    el("span", {}, `${plural(numbers.length, "feature")} picked: `, numbers.map(featureName).join("; ")),
    numbers.length > 1
      ? el("button", { type: "button", onclick: () => mergeFeatures(numbers) }, "Merge")
      : null,
    el("button", { type: "button", onclick: () => hideFeatures(numbers) }, "Hide"),
    el("button", { type: "button", onclick: unpick }, "Pick none"),
  );
}

/** Rename, merge and hide on the page of a feature. */
function featureTools(feature) {
  const name = el("input", {
    name: "name",
    value: featureName(feature),
    "aria-label": "Name of this feature",
    autocomplete: "off",
  });
  const rename = el(
    "form",
    {
      onsubmit: (event) => {
        event.preventDefault();
        renameFeature(feature, name.value);
      },
    },
    name,
    el("button", { type: "submit" }, "Rename"),
  );
  const others = [...new Set([...row(space.partners, feature), ...picked].map(leaderOf))].filter(
    (other) => other !== feature && isListed(other),
  );
  const with_ = el(
    "select",
    { "aria-label": "Feature to merge with" },
    others.map((other) => el("option", { value: other }, `${featureName(other)} #${other}`)),
  );
  const merge = others.length
    ? el(
        "form",
        {
          onsubmit: (event) => {
            event.preventDefault();
            mergeFeatures([feature, Number(with_.value)]);
          },
        },
        with_,
        el("button", { type: "submit" }, "Merge with it"),
      )
    : null;
  const hide = el("button", { type: "button", onclick: () => hideFeatures([feature]) }, "Hide");
  return el(
    "details",
    { class: "tools" },
    el("summary", {}, "Rename, merge or hide"),
    el("div", { class: "toolbar" }, rename, merge, hide),
  );
}

/** In words: what was done to a feature; null where nothing was. */
function changedWords(feature) {
  const link = (f) => el("a", { href: `#/feature/${f}` }, `${featureName(f)} #${f}`);
  const leader = leaderOf(feature);
  if (leader !== feature) return el("p", { class: "changed" }, "It is merged into ", link(leader), ".");
  if (changes.hide.has(feature)) {
    const back = () => change("It is shown again.", () => changes.hide.delete(feature));
    return el(
      "p",
      { class: "changed" },
      "It is hidden. ",
      el("button", { type: "button", onclick: back }, "Show it again"),
    );
  }
  if (!isMerged(feature)) return null;
  return el(
    "p",
    { class: "changed" },
    "It stands for ",
    membersOf(feature).map((f, at) => [at ? "; " : "", `${features.names[f] || "feature"} #${f}`]),
    ": its activation is the root of the sum of their squares. What follows is of the ",
    `${samples.kind}s on this page; all figures are there once nonneg curate has applied the changes.`,
  );
}

/** Every change in words, with a button that takes it back. */
function changeRows() {
  const rows = [];
  const was = (f) => `${features.names[f] || `feature ${f}`} #${f}`;
  const entry = (words, back) =>
    el(
      "li",
      {},
      el("span", {}, words),
      el("button", { type: "button", "aria-label": `Take back: ${words}`, onclick: back }, "Take back"),
    );
  for (const [f, name] of changes.rename) {
    const back = () => change("Taken back.", () => changes.rename.delete(f));
    rows.push(entry(`${was(f)} is called ${name}`, back));
  }
  for (const group of changes.merge) {
    const back = () =>
      change("Taken back.", () => {
        changes.merge = changes.merge.filter((other) => other !== group);
      });
    rows.push(entry(`${group.slice(1).map(was).join("; ")} merged into ${was(group[0])}`, back));
  }
  for (const f of changes.hide) {
    rows.push(entry(`${was(f)} is hidden`, () => change("Taken back.", () => changes.hide.delete(f))));
  }
  return rows;
}

function keptWords() {
  if (!nChanges()) return "";
  if (!isKept)
    return "This browser keeps nothing for this page: the changes are lost when it is closed, unless you download them.";
  return isDownloaded
    ? "The changes are downloaded, and kept by this browser."
    : "This browser keeps the changes for this page; they are not downloaded yet.";
}

function showChanges() {
  const rows = changeRows();
  const discard = () => change("All changes are taken back.", () => takeChanges({}));
  return [
    el("h1", {}, "Changes"),
    el(
      "p",
      { class: "lead" },
      "Rename, merge or hide features here; then download the changes, and apply them to the model:",
    ),
    el("pre", {}, el("code", {}, "nonneg curate RUN changes.json")),
    rows.length
      ? el("ul", { class: "change-list" }, rows)
      : [el("p", {}, "Nothing is changed."), el("p", {}, el("a", { href: "#/features" }, "All features →"))],
    el(
      "div",
      { class: "toolbar" },
      el("button", { type: "button", class: "main", disabled: !rows.length, onclick: downloadChanges }, "Download changes.json"),
      el("button", { type: "button", disabled: !undone.length, onclick: undoChange }, "Undo the last step"),
      el("button", { type: "button", disabled: !rows.length, onclick: discard }, "Take all back"),
    ),
    el("p", { class: "quiet" }, keptWords()),
  ];
}
