// The data of a served page without an atlas.

const content = JSON.parse(document.getElementById("content").textContent);

addEventListener("DOMContentLoaded", () => document.getElementById("main").append(tryPart()));
