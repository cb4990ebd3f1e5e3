// The looks of a sample: its image, its text or its name, and always a link to its page.

const sheets = new Map(); // from a side to its decoded sheets, each with who waits for it

function sheetOf(side, number) {
  if (!sheets.has(side)) {
    const made = side.image_sheets.sheets.map(({ type, data }) => {
      const sheet = { bitmap: null, waiting: [] };
      createImageBitmap(new Blob([bytesOf(data)], { type })).then((bitmap) => {
        sheet.bitmap = bitmap;
        for (const draw of sheet.waiting.splice(0)) draw();
      });
      return sheet;
    });
    sheets.set(side, made);
  }
  return sheets.get(side)[Math.floor(number / side.image_sheets.a_sheet)];
}

/** The image of a sample on a canvas of its own, about `size` pixels wide. */
function thumbnail(side, number, size) {
  const { width, height, a_row: aRow, a_sheet: aSheet } = side.image_sheets;
  const fits = size / Math.max(width, height);
  const isDrawing = Math.max(width, height) <= 32;
  const scale = isDrawing && fits >= 1.5 ? Math.round(fits) : fits; // whole pixels stay square
  const canvas = el("canvas", { width, height, class: "thumb", "aria-hidden": "true" });
  canvas.style.width = `${Math.round(width * scale)}px`;
  canvas.style.height = `${Math.round(height * scale)}px`;
  if (isDrawing && scale >= 1.5) canvas.classList.add("pixels");
  const sheet = sheetOf(side, number);
  const place = number % aSheet;
  const draw = () => {
    const left = (place % aRow) * width;
    const top = Math.floor(place / aRow) * height;
    canvas.getContext("2d").drawImage(sheet.bitmap, left, top, width, height, 0, 0, width, height);
  };
  if (sheet.bitmap) draw();
  else sheet.waiting.push(draw);
  return canvas;
}

/** In words: what a sample is. */
function spoken(side, number, strength) {
  const parts = [side.called(number), side.label(number)];
  if (side.texts) parts.push(side.texts[number]);
  if (!missing(strength)) parts.push(`strength ${strength.toFixed(2)}`);
  return parts.filter(Boolean).join(", ");
}

/** What can be seen of a sample, without a link. */
function look(side, number, size, finder = null) {
  if (side.image_sheets) return thumbnail(side, number, size);
  if (side.texts) return el("span", { class: "words" }, markedText(side.texts[number], finder));
  return el("span", { class: "chip" }, side.called(number));
}

/** Pixels a side of an image in a gallery: a photograph needs more than a drawing. */
const tileSize = (side) => (side.image_sheets && side.image_sheets.width > 48 ? 80 : 56);

/** A sample as a link. `mark` adds its label and strength below an image, or beside a text. */
function tile(
  side,
  number,
  { size = tileSize(side), strength = null, mark = true, href = null, finder = null } = {},
) {
  const label = side.label(number);
  const isImage = Boolean(side.image_sheets);
  const notes = [];
  if (mark && label) notes.push(el("span", { class: "label" }, label));
  if (mark && !missing(strength)) notes.push(el("span", { class: "value" }, strength.toFixed(2)));
  return el(
    "a",
    {
      class: isImage ? "tile" : "tile text",
      href: href || side.href(number),
      title: isImage && side.texts ? side.texts[number] : null,
      "aria-label": spoken(side, number, strength),
    },
    look(side, number, size, finder),
    notes.length ? el("span", { class: "notes" }, notes) : null,
  );
}

/** Many samples: images side by side, texts one below the other. */
function gallery(
  side,
  numbers,
  { strengths = null, size = tileSize(side), mark = true, finder = null } = {},
) {
  const tiles = [...numbers].map((number, at) =>
    tile(side, number, { size, mark, finder, strength: strengths ? strengths[at] : null }),
  );
  if (!tiles.length) return el("p", { class: "quiet" }, "None.");
  return el("div", { class: side.image_sheets ? "gallery" : "gallery texts" }, tiles);
}

/** The first samples of a list without links: what stands on a card that is a link itself. */
function strip(side, numbers, n, size) {
  const looks = [...numbers].slice(0, n).map((number) => look(side, number, size));
  return el("div", { class: side.image_sheets ? "strip" : "strip texts", "aria-hidden": "true" }, looks);
}
