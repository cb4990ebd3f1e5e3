// Many points on a canvas that can be moved and enlarged: drawn pixel by pixel, which is fastest without a graphics card.

/** A colour of the style as one number, as pixels hold it. */
function pixelColour(text) {
  const number = parseInt(text.trim().slice(1), 16);
  const [red, green, blue] = [number >> 16, (number >> 8) & 255, number & 255];
  return ((255 << 24) | (blue << 16) | (green << 8) | red) >>> 0;
}

/** The pixels of a round dot: how far each lies from the middle, and how much of it is covered. */
function dotPixels(radius, width) {
  const [offsets, shares] = [[], []];
  const reach = Math.ceil(radius);
  for (let dy = -reach; dy <= reach; dy++) {
    for (let dx = -reach; dx <= reach; dx++) {
      const share = Math.min(1, radius + 0.5 - Math.hypot(dx, dy));
      if (share <= 0.05) continue;
      offsets.push(dy * width + dx);
      shares.push(Math.round(230 * share)); // a little of what lies below is seen
    }
  }
  return { reach, offsets: Int32Array.from(offsets), shares: Uint8Array.from(shares) };
}

const LEAST_NAMED = 0.004; // of the points that are seen
const MOST_NAMED = 40;

class Plot {
  /** `xs` and `ys` lie in [0, 1]; `view` is kept from the last time, or null. */
  constructor(canvas, xs, ys, view) {
    Object.assign(this, { canvas, xs, ys });
    this.view = view || { zoom: 1, x: 0.5, y: 0.5 };
    this.paper = canvas.getContext("2d");
    this.colours = new Uint32Array(xs.length);
    this.isLit = null; // which points stand out; null for all
    this.labels = []; // [{x, y, n, text, from}], the most important first; `from` is the least zoom
    this.waiting = false;
    this.marked = -1; // a point with a ring around it
  }

  /** As many pixels as the screen shows. */
  resize() {
    const box = this.canvas.getBoundingClientRect();
    this.ratio = Math.min(2, devicePixelRatio || 1);
    this.width = Math.max(1, Math.round(box.width * this.ratio));
    this.height = Math.max(1, Math.round(box.height * this.ratio));
    if (this.canvas.width === this.width && this.canvas.height === this.height && this.image) return;
    this.canvas.width = this.width;
    this.canvas.height = this.height;
    this.image = this.paper.createImageData(this.width, this.height);
    this.pixels = new Uint32Array(this.image.data.buffer);
    this.later();
  }

  /** Pixels for the whole width of the map. */
  get scale() {
    return 0.92 * Math.min(this.width, this.height) * this.view.zoom;
  }

  /** Where a place of the map is on the canvas, in its pixels. */
  at(x, y) {
    return [
      (x - this.view.x) * this.scale + this.width / 2,
      (y - this.view.y) * this.scale + this.height / 2,
    ];
  }

  /** Draw at the next frame, once however often it is asked for. */
  later() {
    if (this.waiting) return;
    this.waiting = true;
    requestAnimationFrame(() => {
      this.waiting = false;
      this.draw();
    });
  }

  draw() {
    if (!this.image) return;
    this.pixels.fill(this.ground);
    const visible = this.xs.length / this.view.zoom ** 2;
    const radius = Math.min(5, Math.max(1.2, 130 / Math.sqrt(visible))) * this.ratio;
    const dot = dotPixels(radius, this.width);
    if (this.isLit) this.points(dotPixels(Math.max(1, radius * 0.7), this.width), 0);
    this.points(dot, 1);
    this.paper.putImageData(this.image, 0, 0);
    this.drawRing(radius);
    this.drawLabels();
  }

  /** All points that stand out (`which` 1) or all others (0). */
  points({ reach, offsets, shares }, which) {
    const { xs, ys, colours, pixels, width, height, isLit, pale } = this;
    const { x, y } = this.view;
    const scale = this.scale;
    const [left, top] = [width / 2 - x * scale, height / 2 - y * scale];
    for (let i = 0; i < xs.length; i++) {
      if (isLit && isLit[i] !== which) continue;
      const px = (xs[i] * scale + left) | 0;
      const py = (ys[i] * scale + top) | 0;
      if (px < reach || py < reach || px >= width - reach || py >= height - reach) continue;
      const colour = which ? colours[i] : pale;
      const redBlue = colour & 0xff00ff;
      const green = colour & 0x00ff00;
      const middle = py * width + px;
      for (let k = 0; k < offsets.length; k++) {
        const to = middle + offsets[k];
        const share = shares[k];
        const below = pixels[to];
        const belowRedBlue = below & 0xff00ff;
        const belowGreen = below & 0x00ff00;
        pixels[to] =
          0xff000000 |
          ((belowRedBlue + (((redBlue - belowRedBlue) * share) >> 8)) & 0xff00ff) |
          ((belowGreen + (((green - belowGreen) * share) >> 8)) & 0x00ff00);
      }
    }
  }

  drawRing(radius) {
    if (this.marked < 0) return;
    const [px, py] = this.at(this.xs[this.marked], this.ys[this.marked]);
    this.paper.lineWidth = 2 * this.ratio;
    this.paper.strokeStyle = this.ink;
    this.paper.beginPath();
    this.paper.arc(px, py, radius + 4 * this.ratio, 0, 2 * Math.PI);
    this.paper.stroke();
  }

  /** Names where they do not lie on each other. */
  drawLabels() {
    const { paper, ratio } = this;
    paper.font = `600 ${12.5 * ratio}px ${this.font}`;
    paper.textAlign = "center";
    paper.textBaseline = "middle";
    paper.lineJoin = "round";
    paper.lineWidth = 3.5 * ratio;
    paper.strokeStyle = this.halo;
    paper.fillStyle = this.ink;
    const boxes = [];
    const least = (LEAST_NAMED * this.xs.length) / this.view.zoom ** 2;
    for (const label of this.labels) {
      if (boxes.length === MOST_NAMED) break;
      if (label.n < least || (label.from || 0) > this.view.zoom) continue;
      const [px, place] = this.at(label.x, label.y);
      if (px < 0 || place < 0 || px > this.width || place > this.height) continue;
      label.width ??= paper.measureText(label.text).width / ratio;
      const half = (label.width * ratio) / 2 + 6 * ratio;
      // A name at the edge moves inwards, so that it can be read.
      const inside = Math.max(Math.min(px, this.width - half), half);
      const py = Math.max(Math.min(place, this.height - 12 * ratio), 12 * ratio);
      const box = [inside - half, py - 11 * ratio, inside + half, py + 11 * ratio];
      if (boxes.some((b) => box[2] > b[0] && box[0] < b[2] && box[3] > b[1] && box[1] < b[3])) continue;
      boxes.push(box);
      paper.strokeText(label.text, inside, py);
      paper.fillText(label.text, inside, py);
    }
  }

  /** The point nearest to a pixel of the page, at most `reach` away; -1 for none. */
  nearest(clientX, clientY, reach = 14) {
    const box = this.canvas.getBoundingClientRect();
    return this.nearestTo((clientX - box.left) * this.ratio, (clientY - box.top) * this.ratio, reach);
  }

  nearestTo(px, py, reach) {
    const { xs, ys, scale } = this;
    const x = (px - this.width / 2) / scale + this.view.x;
    const y = (py - this.height / 2) / scale + this.view.y;
    let best = ((reach * this.ratio) / scale) ** 2;
    let found = -1;
    for (let i = 0; i < xs.length; i++) {
      if (this.isLit && !this.isLit[i]) continue;
      const d = (xs[i] - x) ** 2 + (ys[i] - y) ** 2;
      if (d < best) [best, found] = [d, i];
    }
    return found;
  }

  /** Move by pixels of the page. */
  move(dx, dy) {
    const by = this.ratio / this.scale;
    this.view.x = Math.min(1.1, Math.max(-0.1, this.view.x - dx * by));
    this.view.y = Math.min(1.1, Math.max(-0.1, this.view.y - dy * by));
    this.later();
  }

  /** Enlarge around a pixel of the page, or around the middle; tells whether anything changed. */
  enlarge(factor, clientX = null, clientY = null) {
    const zoom = Math.min(200, Math.max(1, this.view.zoom * factor));
    if (zoom === this.view.zoom) return false;
    const box = this.canvas.getBoundingClientRect();
    const dx = clientX === null ? 0 : clientX - box.left - box.width / 2;
    const dy = clientY === null ? 0 : clientY - box.top - box.height / 2;
    this.move(-dx, -dy);
    this.view.zoom = zoom;
    this.move(dx, dy);
    return true;
  }

  showAll() {
    Object.assign(this.view, { zoom: 1, x: 0.5, y: 0.5 });
    this.later();
  }
}

/** Let wheel, fingers and mouse move a plot; `onpoint` hears what is pointed at, `onopen` what is clicked. */
function movedByPointer(plot, { onpoint, onopen }) {
  const { canvas } = plot;
  const down = new Map(); // pointers that touch, by id
  let travelled = 0;
  canvas.addEventListener(
    "wheel",
    (event) => {
      const pixels = event.deltaMode ? 30 * event.deltaY : event.deltaY;
      // At the ends the page scrolls on.
      if (!plot.enlarge(Math.exp(-pixels / 300), event.clientX, event.clientY)) return;
      event.preventDefault();
      onpoint(-1);
    },
    { passive: false },
  );
  canvas.addEventListener("pointerdown", (event) => {
    if (event.button > 0) return;
    down.set(event.pointerId, [event.clientX, event.clientY]);
    canvas.setPointerCapture(event.pointerId);
    if (down.size === 1) travelled = 0;
  });
  canvas.addEventListener("pointermove", (event) => {
    const before = down.get(event.pointerId);
    if (!before) return onpoint(plot.nearest(event.clientX, event.clientY));
    const now = [event.clientX, event.clientY];
    down.set(event.pointerId, now);
    travelled += Math.hypot(now[0] - before[0], now[1] - before[1]);
    onpoint(-1);
    if (down.size === 1) return plot.move(now[0] - before[0], now[1] - before[1]);
    const other = [...down].find(([id]) => id !== event.pointerId)[1];
    const apart = (point) => Math.max(1, Math.hypot(point[0] - other[0], point[1] - other[1]));
    const middle = [(now[0] + other[0]) / 2, (now[1] + other[1]) / 2];
    plot.move((now[0] - before[0]) / 2, (now[1] - before[1]) / 2);
    return plot.enlarge(apart(now) / apart(before), ...middle);
  });
  const lift = (event) => {
    const wasOne = down.size === 1 && down.has(event.pointerId);
    down.delete(event.pointerId);
    if (event.type !== "pointerup" || !wasOne || travelled > 5) return;
    const found = plot.nearest(event.clientX, event.clientY);
    if (found >= 0) onopen(found);
  };
  canvas.addEventListener("pointerup", lift);
  canvas.addEventListener("pointercancel", lift);
  canvas.addEventListener("pointerleave", () => onpoint(-1));
}
