// The search for samples: by label, text, id or number, and the features of that name.

const SAMPLES_A_PAGE = 120;

function matches(side, text, wanted) {
  const found = [];
  for (let i = 0; i < side.n; i++) {
    if (wanted !== null && (!side.labels || side.labels[i] !== Number(wanted))) continue;
    const fits =
      !text ||
      side.label(i).toLowerCase().includes(text) ||
      (side.texts && side.texts[i].toLowerCase().includes(text)) ||
      side.called(i).toLowerCase().includes(text);
    if (fits) found.push(i);
  }
  return found;
}

function sideResults(side, query) {
  const text = (query.get("find") || "").trim().toLowerCase();
  const found = matches(side, text, query.get("class"));
  const nPages = Math.ceil(found.length / SAMPLES_A_PAGE);
  const page = Math.min(Number(query.get("page") || 0), Math.max(0, nPages - 1));
  const some = found.slice(page * SAMPLES_A_PAGE, (page + 1) * SAMPLES_A_PAGE);
  return section(
    plural(found.length, side.kind),
    null,
    gallery(side, some),
    pager(page, nPages, (p) => changedHref("samples", query, { page: p })),
  );
}

function sampleResults(query) {
  const text = (query.get("find") || "").trim().toLowerCase();
  const named = text
    ? sorted("expected").filter((f) => isListed(f) && featureName(f).toLowerCase().includes(text))
    : [];
  return el(
    "div",
    {},
    named.length
      ? section(
          plural(named.length, "feature"),
          null,
          el(
            "div",
            { class: "cards" },
            named.slice(0, 12).map((feature) => featureCard(feature)),
          ),
          named.length > 12
            ? el(
                "p",
                {},
                el("a", { href: `#/features?find=${encodeURIComponent(text)}` }, "All of them →"),
              )
            : null,
        )
      : null,
    sides.map((side) => sideResults(side, query)),
  );
}

function showSamples(query) {
  const results = el("div", {}, sampleResults(query));
  const bar = el(
    "div",
    { class: "toolbar" },
    searchField("Label, text, id or number", query.get("find") || "", (value) => {
      const href = changedHref("samples", query, { find: value });
      query = new URLSearchParams(href.split("?")[1] || "");
      noteAddress(href);
      results.replaceChildren(sampleResults(query));
    }),
    hasLabels
      ? choice(
          "Class",
          [["", "all classes"], ...content.class_names.map((name, c) => [c, name])],
          query.get("class") ?? "",
          (value) => {
            location.hash = changedHref("samples", query, { class: value });
          },
        )
      : null,
  );
  return [el("h1", {}, "Samples"), bar, results];
}
