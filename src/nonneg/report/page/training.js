// Training: one small chart per quantity, with the line below or above which a run has collapsed.

function trainingChart({ title, lines, collapse }) {
  const drawn = Object.entries(lines).map(([name, points]) => ({ name, points }));
  const levels = missing(collapse) ? [] : [{ name: "collapse", y: collapse }];
  const last = drawn.map(
    ({ name, points }) => `${name} ends at ${decimal(points[points.length - 1][1])}`,
  );
  const label = `${title} over epochs: ${last.join(", ")}`;
  return el(
    "figure",
    {},
    el("h2", {}, title),
    lineChart(drawn, { label, xLabel: "epoch", levels }),
    el("figcaption", {}, `${last.join("; ")}.`),
  );
}

/** What the charts are of; those of a fit are of its loss alone. */
function trainingWords() {
  const isOfLoss = ({ key }) => key === "loss" || key === "progress_rate";
  const words = content.training.every(isOfLoss)
    ? ["The loss is of training."]
    : ["The loss is of training; all else is measured on held-out samples after each epoch."];
  if (content.training.some(({ collapse }) => !missing(collapse)))
    words.push("A run that stays at the line marked collapse has learnt nothing.");
  return words.join(" ");
}

function showTraining() {
  return [
    el("h1", {}, "Training"),
    el("p", { class: "quiet" }, trainingWords()),
    el("div", { class: "figures-row" }, content.training.map(trainingChart)),
  ];
}
