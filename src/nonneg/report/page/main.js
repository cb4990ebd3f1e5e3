// The parts of the page: the address after # says which is shown, so that links and the back button work.

const PARTS = [
  ["#/", "At a glance", true],
  ["#/map", "Map", true],
  ["#/features", "Features", true],
  ["#/groups", "Groups", tree.features.length > 2],
  ["#/samples", "Samples", true],
  ["#/time", "Over time", time !== null],
  ["#/compare", "Compare", against !== null],
  ["#/space", "Space", true],
  ["#/training", "Training", content.training.length > 0],
  ["#/changes", "Changes", true],
].filter(([, , exists]) => exists);

const scrolls = new Map(); // where each step of the history was left
let shown = null;
let step = null;

function notFound(words) {
  return [
    el("h1", {}, "Not here"),
    el("p", {}, words),
    el("p", {}, el("a", { href: "#/" }, "At a glance →")),
  ];
}

const sideNamed = (route) => sides.find((side) => side.route === route);

/** The side of an address and the place of its sample there; -1 where there is none. */
function addressed(route, number) {
  const side = sideNamed(route);
  return [side, side ? side.place(number) : -1];
}

function view(path, query) {
  const [part, ...rest] = path.split("/");
  const numbers = rest.map(Number);
  if (part === "") return showGlance();
  if (part === "map") return showDocuments(query);
  if (part === "features") return showFeatures(query);
  if (part === "groups" && tree.features.length > 2) return showGroups();
  if (part === "time" && time) return showTime();
  if (part === "changes") return showChanges();
  if (part === "feature") return showFeature(numbers[0]);
  if (part === "samples") return showSamples(query);
  if (part === "sample" || part === "caption") return showSample(...addressed(part, numbers[0]));
  if (part === "match")
    return showMatch(...addressed(rest[0], numbers[1]), ...addressed(rest[2], numbers[3]));
  if (part === "compare" && against) return showCompare(query);
  if (part === "space") return showSpace();
  if (part === "training" && content.training.length) return showTraining();
  return notFound("There is nothing under this address.");
}

const partOf = (path) => {
  const first = path.split("/")[0];
  return (
    { feature: "features", sample: "samples", caption: "samples", match: "samples" }[first] || first
  );
};

function show(event) {
  const isPart = location.hash.startsWith("#/");
  if (!isPart && location.hash && shown !== null && event) return; // a link inside the page
  const hash = isPart ? location.hash : (location.hash && shown) || "#/"; // without one: the start
  shown = hash;
  const [path, search] = hash.slice(2).split("?");
  const main = document.getElementById("main");
  const used = document.activeElement.closest("main select");
  main.replaceChildren(...el("div", {}, view(path, new URLSearchParams(search || ""))).childNodes);
  const nav = document.querySelector("header.top nav");
  nav.replaceChildren(
    ...PARTS.map(([href, words]) =>
      el(
        "a",
        { href, "aria-current": href === `#/${partOf(path)}` ? "page" : null },
        words,
        href === "#/changes" && nChanges() ? el("span", { class: "badge" }, count(nChanges())) : null,
      ),
    ),
  );
  const heading = main.querySelector("h1");
  document.title = path ? `${heading.firstChild.textContent} · ${content.title}` : content.title;
  if (!event) return;
  heading.tabIndex = -1;
  // A list that was just changed keeps the keyboard, so that the next key can change it again.
  const lists = [...main.querySelectorAll("select")];
  const again = used && lists.find((list) => list.ariaLabel === used.ariaLabel);
  (again || heading).focus({ preventScroll: true });
  takeStep();
}

/** A link leads to the top of a part, a step back to where it was left. */
function takeStep() {
  if (!history.state)
    noteAddress(location.href, { step: `${performance.timeOrigin} ${performance.now()}` });
  step = history.state && history.state.step;
  scrollTo(0, scrolls.get(step) || 0);
}

const isDark = () => {
  const chosen = document.documentElement.dataset.theme;
  return chosen ? chosen === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
};

function setTheme(theme) {
  document.documentElement.dataset.theme = theme;
  try {
    localStorage.setItem("nonneg-theme", theme);
  } catch {
    // Some browsers keep nothing for pages from disk; the choice then lasts as long as the page.
  }
  show();
}

function start() {
  history.scrollRestoration = "manual";
  try {
    const kept = localStorage.getItem("nonneg-theme");
    if (kept) document.documentElement.dataset.theme = kept;
  } catch {
    // As above.
  }
  document
    .querySelector("button.theme")
    .addEventListener("click", () => setTheme(isDark() ? "light" : "dark"));
  document.querySelector("form.find").addEventListener("submit", (event) => {
    event.preventDefault();
    const text = event.target.elements.find.value.trim();
    location.hash = text ? `#/samples?find=${encodeURIComponent(text)}` : "#/samples";
  });
  startChanges();
  addEventListener("hashchange", show);
  addEventListener("scroll", () => scrolls.set(step, scrollY), { passive: true });
  show();
  takeStep();
}

start();
