"use strict";
// Elements and small pictures, drawn from numbers. The colors of pictures have a meaning, so they are the same in dark
// mode. They match the figures drawn with matplotlib.
const SIGNED = [[31, 95, 158], [134, 182, 216], [255, 255, 255], [238, 154, 131], [179, 32, 44]];

function element(name, properties = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(properties)) {
    if (key in made && key !== "list" && key !== "form") made[key] = value;
    else made.setAttribute(key, value);
  }
  made.append(...children);
  return made;
}

// One signed byte per number; 127 stands for the largest.
function decoded(text) {
  const raw = atob(text);
  return Int8Array.from(raw, (letter) => letter.charCodeAt(0));
}

function signedColor(value) {
  const place = Math.min(Math.max((value / 127 + 1) * 2, 0), 4);
  const low = Math.min(Math.floor(place), 3);
  return SIGNED[low].map((from, k) => Math.round(from + (place - low) * (SIGNED[low + 1][k] - from)));
}

// A picture of rows x columns numbers. Lines separate blocks of block[0] rows and block[1] columns.
function heat(values, rows, columns, { gray = false, label = "", cell = 8, block = null } = {}) {
  const pixels = new ImageData(columns, rows);
  values.forEach((value, k) => {
    const color = gray ? Array(3).fill(Math.round((255 * value) / 127)) : signedColor(value);
    pixels.data.set([...color, 255], 4 * k);
  });
  const small = element("canvas", { width: columns, height: rows });
  small.getContext("2d").putImageData(pixels, 0, 0);
  const canvas = element("canvas", { width: columns * cell, height: rows * cell });
  canvas.setAttribute("role", "img");
  canvas.setAttribute("aria-label", label);
  const pen = canvas.getContext("2d");
  pen.imageSmoothingEnabled = false;
  pen.drawImage(small, 0, 0, canvas.width, canvas.height);
  if (block) {
    pen.fillStyle = "#595959";
    for (let y = block[0]; y < rows; y += block[0]) pen.fillRect(0, y * cell, canvas.width, 1);
    for (let x = block[1]; x < columns; x += block[1]) pen.fillRect(x * cell, 0, 1, canvas.height);
  }
  return canvas;
}

function shortNumber(value) {
  if (value === 0) return "0";
  const size = Math.abs(value);
  const text = size < 1e-3 || size >= 1e5 ? value.toExponential(1) : String(Number(value.toPrecision(3)));
  return text.replace(/-/g, "\u2212");
}

// The color scale, from minus the largest value to the largest.
function colorScale(largest, what) {
  const bar = element("div", { className: "ramp" });
  const ends = element("div", { className: "ends" });
  ends.append(...[-largest, 0, largest].map((value) => element("span", {}, shortNumber(value))));
  return element("div", { className: "color-scale" }, element("span", { className: "what" }, what), bar, ends);
}

// An element of an SVG picture.
function shape(name, attributes, text = "") {
  // Looked up, not written out: a page without any address obviously fetches nothing.
  const space = element("div", { innerHTML: "<svg></svg>" }).firstChild.namespaceURI;
  const made = document.createElementNS(space, name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.textContent = text;
  return made;
}

// Number of channels by order: one bar per order, with its count above it.
function histogram(counts, { label, unit }) {
  const shown = counts.map((count, k) => [k + 1, count]).filter(([order, count]) => count > 0 || order <= 4);
  const step = 44;
  const [width, height, base] = [shown.length * step + 16, 142, 104];
  const svg = shape("svg", { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": label, class: "histogram" });
  svg.style.maxWidth = `${width}px`;
  const highest = Math.max(...counts, 1);
  shown.forEach(([order, count], k) => {
    const size = (80 * count) / highest;
    const middle = 8 + (k + 0.5) * step;
    const place = { x: middle - 14, y: base - size, width: 28, height: size, "data-order": order, "data-count": count };
    svg.append(shape("rect", place));
    svg.append(shape("text", { x: middle, y: base - size - 5, "text-anchor": "middle" }, String(count)));
    svg.append(shape("text", { x: middle, y: base + 16, "text-anchor": "middle" }, String(order)));
  });
  svg.append(shape("line", { x1: 4, x2: width - 4, y1: base, y2: base }));
  svg.append(shape("text", { x: width / 2, y: height - 8, "text-anchor": "middle", class: "axis" }, unit));
  return svg;
}
