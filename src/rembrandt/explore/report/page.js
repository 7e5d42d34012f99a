"use strict";
// Show the data of the page. Values are inserted as text only, never as HTML.
const data = JSON.parse(document.getElementById("data").textContent);
const main = document.getElementById("main");
const nav = document.getElementById("nav");

// --- small helpers -------------------------------------------------------------------------------------------------
function make(name, attributes = {}, ...children) {
  const node = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (key === "class") node.className = value;
    else if (key.startsWith("on")) node.addEventListener(key.slice(2), value);
    else node.setAttribute(key, value);
  }
  node.append(...children.filter((child) => child !== null && child !== undefined));
  return node;
}
function draw(name, attributes = {}, ...children) {
  const node = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
  node.append(...children);
  return node;
}
const whole = new Intl.NumberFormat("en");
const count = (value) => whole.format(Math.round(value));
const counted = (n, noun) => `${count(n)} ${n === 1 ? noun : `${noun}s`}`;
const times = (n) => (n === 1 ? "once" : `${count(n)} times`);
const listed = (names) => new Intl.ListFormat("en").format(names);
const narrow = window.innerWidth < 640;
const minus = (value) => value.toFixed(3).replace("-", "−");
const signed = (value) => (Math.abs(value) < 0.0005 ? "0.000" : `${value < 0 ? "−" : "+"}${Math.abs(value).toFixed(3)}`);
const seconds = (value) => (value < 90 ? `${value.toFixed(1)} s` : `${(value / 60).toFixed(1)} min`);
function section(id, short, title, about, ...children) {
  nav.append(make("a", { href: `#${id}` }, short));
  main.append(make("section", { id }, make("h2", {}, title), about ? make("p", { class: "about" }, about) : null, ...children));
}
function table(title, header, rows, numbers = []) {
  const kind = (i) => (numbers.includes(i) ? { class: "number" } : {});
  return make("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": title }, make("table", {},
    make("thead", {}, make("tr", {}, ...header.map((name, i) => make("th", { scope: "col", ...kind(i) }, name)))),
    make("tbody", {}, ...rows.map((row) => make("tr", row.strong ? { class: "strong" } : {}, ...row.map((cell, i) => make("td", kind(i), cell)))))));
}
function key(...entries) {
  return make("div", { class: "key" }, ...entries.map(([kind, name]) => make("span", {}, make("i", { class: kind }), name)));
}

// --- light and dark ------------------------------------------------------------------------------------------------
const root = document.documentElement;
const prefersDark = matchMedia("(prefers-color-scheme: dark)");
const redraws = [];
function setTheme(theme) {
  root.dataset.theme = theme;
  redraws.forEach((redraw) => redraw());
}
setTheme(prefersDark.matches ? "dark" : "light");
prefersDark.addEventListener("change", () => setTheme(prefersDark.matches ? "dark" : "light"));
document.getElementById("theme").addEventListener("click", () => setTheme(root.dataset.theme === "dark" ? "light" : "dark"));
const colour = (name) => getComputedStyle(root).getPropertyValue(name).trim();

// --- the model and its measures --------------------------------------------------------------------------
const model = data.model;
const metric = Object.fromEntries(data.metrics.map((measure) => [measure.name, measure]));
const noun = model.texts ? "text" : "example";
const kind = `${noun}s`;
const partNames = { trees: "label trees", centroids: "label centroids", embedding: "the label embedding", names: "the names of labels", encoder: "an encoder" };
const parts = model.parts.map((name) => partNames[name] ?? name);
document.getElementById("lead").textContent =
  `A model with ${counted(model.n_labels, "label")}, trained on ${counted(model.n_train, noun)} ` +
  `and evaluated on ${counted(model.n_test, `other ${noun}`)}. Its predictions come from ${listed(parts)}.`;

function figure(value, what, detail) {
  return make("div", { class: "card figure" }, make("div", { class: "value" }, value), make("div", { class: "what" }, what),
    detail ? make("div", { class: "more" }, detail) : null);
}
const first = metric["p@1"];
const range = (m) => `${Math.round(100 * data.level)} % interval: ${percent(m.low)} to ${percent(m.high)}`;
section("glance", "Summary", "Summary",
  `The first predicted label is right for ${percent(first.value)} of the ${kind}. The most popular label is right for ${percent(first.popular)}.`,
  make("div", { class: "figures" },
    figure(percent(first.value), "of the first labels are right (P@1)", range(first)),
    model.multiclass ? null : figure(percent(metric["p@5"].value), "of the first five labels are right (P@5)", range(metric["p@5"])),
    figure(percent(metric["ndcg@5"].value), "of the ideal ranking (nDCG@5)", range(metric["ndcg@5"])),
    figure(count(data.examples_per_second), `${kind} per second`, data.fit_seconds ? `trained in ${seconds(data.fit_seconds)}` : null)));

const titles = { p: "P@", ndcg: "nDCG@", psp: "PSP@", r: "R@", f1: "F1@" };
function metricTitle(name) {
  const [family, k] = name.split("@");
  return titles[family] + k;
}
const measures = Object.keys(titles).flatMap((family) => data.metrics.filter((measure) => measure.name.startsWith(`${family}@`)));
function intervals() {
  const shown = measures;
  const row = 33;
  const left = 74;
  const width = narrow ? 330 : 520;
  const height = shown.length * row + 26;
  const x = (value) => left + value * (width - left - 96);
  const svg = draw("svg", { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": "Measures with confidence intervals" });
  for (const tick of [0, 0.25, 0.5, 0.75, 1]) {
    svg.append(draw("line", { class: "axis", x1: x(tick), x2: x(tick), y1: 4, y2: height - 20 }),
      draw("text", { x: x(tick), y: height - 4, "text-anchor": "middle" }, percent(tick, 0)));
  }
  shown.forEach((m, i) => {
    const y = i * row + 17;
    svg.append(draw("text", { x: left - 10, y: y + 4, "text-anchor": "end" }, metricTitle(m.name)),
      draw("circle", { class: "second", cx: x(m.popular), cy: y, r: 3.5 }),
      draw("line", { class: "whisker", x1: x(m.low), x2: x(m.high), y1: y, y2: y }),
      draw("circle", { class: "dot", cx: x(m.value), cy: y, r: 5 }),
      draw("text", { x: width - 84, y: y + 4 }, `${percent(m.low).slice(0, -2)} – ${percent(m.high).slice(0, -2)}`));
  });
  return svg;
}
const largest = data.largest["p@5"];
const ceiling = largest < 1 ? `P@5 can be ${percent(largest, 1)} at most here, because many examples have fewer than five labels.` : "";
section("measures", "Measures", "Measures",
  "P@k: fraction of the first k labels that are right. nDCG@k: the same with more weight on the first ranks, relative to the ideal ranking. PSP@k: rare labels count more. R@k: fraction of the true labels that are among the first k. F1@k: the harmonic mean of precision and recall. " +
  ceiling + ` Of the labels that reach the threshold, micro-F1 is ${percent(data.f1.micro_f1)} and macro-F1 ${percent(data.f1.macro_f1)}.` +
    (data.f1.hierarchical_f1 === undefined
      ? ""
      : ` With all labels above them, precision is ${percent(data.f1.hierarchical_precision)}, recall ${percent(data.f1.hierarchical_recall)} and F1 ${percent(data.f1.hierarchical_f1)}.`),
  make("div", { class: "grid" },
    make("div", { class: "card" }, key(["first", "this model, with its confidence interval"], ["second", "most popular labels"]), intervals()),
    make("div", { class: "card" }, table("Measures", ["measure", "this model", "interval", "most popular"],
      measures.map((m) => [metricTitle(m.name), percent(m.value, 2), `${percent(m.low, 2)} – ${percent(m.high, 2)}`, percent(m.popular, 2)]), [1, 2, 3]))));

// --- frequency, calibration, spectrum ---------------------------------------------------------------------------
function deciles() {
  const width = narrow ? 330 : 1040;
  const bottom = narrow ? 76 : 44;
  const height = 226 + bottom;
  const left = 44;
  const top = 8;
  const n = data.deciles.length;
  const y = (value) => top + (1 - value) * (height - top - bottom);
  const step = (width - left) / n;
  const svg = draw("svg", { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": "Precision and recall by label frequency" });
  for (const tick of [0, 0.25, 0.5, 0.75, 1]) {
    svg.append(draw("line", { class: "axis", x1: left, x2: width, y1: y(tick), y2: y(tick) }),
      draw("text", { x: left - 6, y: y(tick) + 4, "text-anchor": "end" }, percent(tick, 0)));
  }
  data.deciles.forEach((d, i) => {
    const x = left + i * step;
    const wide = step * 0.26;
    [["first", d.precision, 0.22], ["second", d.recall, 0.52]].forEach(([name, value, at]) => {
      if (value === null) return;
      svg.append(draw("rect", { class: name, x: x + at * step, y: y(value), width: wide, height: Math.max(0, y(0) - y(value)), rx: 2 },
        draw("title", {}, `${name === "first" ? "precision" : "recall"} ${percent(value)} · ${count(d.n_true)} times true, ${count(d.n_predicted)} times predicted`)));
    });
    const label = d.rarest === d.commonest ? count(d.rarest) : `${count(d.rarest)}–${count(d.commonest)}`;
    const at = narrow ? { x: 0, y: 0, "text-anchor": "end", transform: `translate(${x + step / 2 + 4} ${height - bottom + 32}) rotate(-50)` } : { x: x + step / 2, y: height - 10, "text-anchor": "middle" };
    svg.append(draw("text", { x: x + step / 2, y: height - bottom + 18, "text-anchor": "middle" }, String(i + 1)), draw("text", at, label));
  });
  return svg;
}
function reliabilityCurve() {
  const size = 300;
  const width = narrow ? 330 : 520;
  const left = 44;
  const bottom = 40;
  const top = 8;
  const bins = data.calibration.bins;
  const x = (value) => left + value * (width - left - 10);
  const y = (value) => top + (1 - value) * (size - top - bottom);
  const svg = draw("svg", { viewBox: `0 0 ${width} ${size}`, role: "img", "aria-label": "Reliability curve" });
  for (const tick of [0, 0.25, 0.5, 0.75, 1]) {
    svg.append(draw("line", { class: "axis", x1: left, x2: width - 10, y1: y(tick), y2: y(tick) }),
      draw("text", { x: left - 6, y: y(tick) + 4, "text-anchor": "end" }, percent(tick, 0)),
      draw("text", { x: x(tick), y: size - 20, "text-anchor": "middle" }, percent(tick, 0)));
  }
  const largestBin = Math.max(...bins.map((bin) => bin.n), 1);
  bins.forEach((bin) => svg.append(draw("rect", { class: "light", x: x(bin.predicted) - 12, width: 24, rx: 2, y: y(0.25 * bin.n / largestBin), height: y(0) - y(0.25 * bin.n / largestBin) })));
  svg.append(draw("line", { class: "ideal", x1: x(0), y1: y(0), x2: x(1), y2: y(1) }),
    draw("polyline", { class: "curve", points: bins.map((bin) => `${x(bin.predicted)},${y(bin.observed)}`).join(" ") }));
  bins.forEach((bin) => svg.append(draw("circle", { class: "dot", cx: x(bin.predicted), cy: y(bin.observed), r: 4 },
    draw("title", {}, `predicted ${percent(bin.predicted)}, observed ${percent(bin.observed)}, ${count(bin.n)} predictions`))));
  svg.append(draw("text", { x: (left + width) / 2, y: size - 3, "text-anchor": "middle" }, "predicted probability"));
  return svg;
}
function spectrumCurve() {
  const { values } = data.spectrum;
  const rank = values.length;
  const ranks = values.map((_, i) => i + 1);
  const width = narrow ? 330 : 520;
  const height = 270;
  const left = 52;
  const bottom = 40;
  const top = 8;
  const positive = values.filter((value) => value > 0);
  if (!positive.length) return make("p", { class: "soft" }, "All values are zero.");
  const low = Math.floor(Math.log10(Math.min(...positive)));
  const high = Math.max(low + 1, Math.ceil(Math.log10(Math.max(...positive))));
  const widest = Math.max(Math.log10(ranks[ranks.length - 1]), 0.5);
  const x = (value) => left + Math.log10(value) / widest * (width - left - 14);
  const y = (value) => top + (high - Math.log10(value)) / (high - low) * (height - top - bottom);
  const svg = draw("svg", { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": "Spectrum" });
  for (let power = low; power <= high; power += Math.ceil((high - low) / 6)) {
    svg.append(draw("line", { class: "axis", x1: left, x2: width - 14, y1: y(10 ** power), y2: y(10 ** power) }),
      draw("text", { x: left - 6, y: y(10 ** power) + 4, "text-anchor": "end" }, power >= -2 && power < 6 ? (10 ** power).toLocaleString("en") : `1e${power}`));
  }
  for (let power = 0; power <= widest; power += 1) svg.append(draw("text", { x: x(10 ** power), y: height - 20, "text-anchor": "middle" }, count(10 ** power)));
  const points = ranks.map((r, i) => [r, values[i]]).filter(([, value]) => value > 0).map(([r, value]) => `${x(r)},${y(value)}`);
  svg.append(draw("polyline", { class: "curve", points: points.join(" ") }));
  const at = Math.min(x(rank), width - 14);
  svg.append(draw("line", { class: "ideal", x1: at, x2: at, y1: top, y2: height - bottom }),
    draw("text", { x: at - 6, y: top + 12, "text-anchor": "end" }, `rank ${count(rank)}`),
    draw("text", { x: (left + width) / 2, y: height - 3, "text-anchor": "middle" }, "dimension of the embedding"));
  return svg;
}
section("frequency", "Frequency", "Common and rare labels",
  `Labels in ten groups of equal size, from the most to the least frequent in training. Precision: fraction of the predictions of these labels that are right. Recall: fraction of their true occurrences that are among the first ${model.top_k} predictions.`,
  make("div", { class: "card" }, key(["first", "precision"], ["second", `recall@${model.top_k}`]), deciles(),
    make("p", { class: "sum" }, "Below each group: its number and the range of training counts of its labels.")));
section("shape", "Calibration", data.spectrum ? "Calibration and spectrum" : "Calibration", null,
  make("div", { class: "grid halves" },
    make("div", { class: "card" }, make("h3", {}, "Calibration of probabilities"), reliabilityCurve(),
      make("p", { class: "sum" }, `On the dashed line, 70 % of the predictions with a probability of 70 % are right. The expected calibration error, the mean difference from the line, is ${percent(data.calibration.error)}. The pale bars show the number of predictions.`)),
    data.spectrum ? make("div", { class: "card" }, make("h3", {}, "Spectrum of the embedding"), spectrumCurve(),
      make("p", { class: "sum" }, `Importance of each dimension of the ${data.spectrum.method} embedding. The rank is ${count(data.spectrum.values.length)}${data.spectrum.reason ? `: ${data.spectrum.reason}` : ""}.`)) : null));

// --- the map of labels ---------------------------------------------------------------------------------------------
const AROUND = 20; // labels that are in view around one that is searched for
function labelMap(map) {
  const n = map.names.length;
  const [left, right, top, bottom] = [map.x, map.y].flatMap((values) => [Math.min(...values), Math.max(...values)]);
  const side = Math.max(right - left, bottom - top) || 1;
  const mapX = map.x.map((value) => value - (left + right - side) / 2);
  const mapY = map.y.map((value) => value - (top + bottom - side) / 2);
  const canvas = make("canvas", { tabindex: "0", role: "img", "aria-label": `Map of ${counted(n, "label")}; plus, minus and the arrow keys move it` });
  const tip = make("div", { class: "tip", hidden: "" });
  const input = make("input", { type: "search", placeholder: "Find a label", "aria-label": "Find a label on the map" });
  const list = make("ul", { class: "found" });
  const ramp = make("canvas", { class: "ramp", width: "90", height: "8" });
  const zoomBy = (factor) => { zoomAt(canvas.clientWidth / 2, canvas.clientHeight / 2, factor); };
  const box = make("div", { class: "card mapbox" }, canvas, tip,
    make("div", { class: "tools" }, make("div", { class: "search" }, input, list),
      make("button", { type: "button", "aria-label": "Zoom in", onclick: () => zoomBy(1.5) }, "+"),
      make("button", { type: "button", "aria-label": "Zoom out", onclick: () => zoomBy(1 / 1.5) }, "−"),
      make("button", { type: "button", onclick: () => { chosen = -1; say(-1); home(); paint(); } }, "All")),
    make("div", { class: "mapfoot" }, "recall\u00a00\u00a0%", ramp, "100\u00a0%; grey: not in the test data"));
  const dot = map.counts.map((value) => 1.1 + 0.75 * Math.log10(1 + value));
  let scale = 1;
  let shiftX = 0;
  let shiftY = 0;
  let hovered = -1;
  let chosen = -1;
  let waiting = false;
  const screenX = (i) => mapX[i] * scale + shiftX;
  const screenY = (i) => mapY[i] * scale + shiftY;

  function home() {
    scale = Math.min(canvas.clientWidth, canvas.clientHeight) / (side * 1.06);
    shiftX = (canvas.clientWidth - side * scale) / 2;
    shiftY = (canvas.clientHeight - side * scale) / 2;
  }
  function shade(value, palette) {
    return value === null ? palette.none : palette.steps[Math.round(value * 10)];
  }
  function palette() {
    const dark = root.dataset.theme === "dark";
    const from = dark ? [96, 130, 160] : [120, 158, 184];
    const to = dark ? [255, 178, 92] : [196, 84, 10];
    const steps = Array.from({ length: 11 }, (_, i) => `rgb(${from.map((c, j) => Math.round(c + (to[j] - c) * i / 10)).join(",")})`);
    return { none: dark ? "rgb(74,69,60)" : "rgb(206,200,190)", steps };
  }
  function paint() {
    if (waiting) return;
    waiting = true;
    requestAnimationFrame(() => { waiting = false; paintNow(); });
  }
  function paintNow() {
    const ratio = window.devicePixelRatio || 1;
    const wide = canvas.clientWidth;
    const high = canvas.clientHeight;
    if (canvas.width !== Math.round(wide * ratio) || canvas.height !== Math.round(high * ratio)) {
      canvas.width = Math.round(wide * ratio);
      canvas.height = Math.round(high * ratio);
    }
    const pen = canvas.getContext("2d");
    const colours = palette();
    pen.setTransform(ratio, 0, 0, ratio, 0, 0);
    pen.clearRect(0, 0, wide, high);
    const room = scale * side / Math.sqrt(n); // pixels between two labels, if they were on a grid
    const near = Math.max(Math.sqrt(Math.max(1, scale * side / high)), Math.min(2.2, room / 40));
    const inside = [];
    pen.globalAlpha = 0.85;
    for (let i = n - 1; i >= 0; i -= 1) {
      const x = screenX(i);
      const y = screenY(i);
      if (x < -9 || y < -9 || x > wide + 9 || y > high + 9) continue;
      inside.push(i);
      pen.fillStyle = shade(map.recall[i], colours);
      pen.beginPath();
      pen.arc(x, y, Math.min(dot[i] * near, 11), 0, 7);
      pen.fill();
    }
    pen.globalAlpha = 1;
    const marked = hovered >= 0 ? hovered : chosen;
    if (marked >= 0) {
      pen.strokeStyle = colour("--ink");
      pen.lineWidth = 1;
      for (const other of map.neighbours[marked]) {
        pen.globalAlpha = 0.55;
        pen.beginPath();
        pen.moveTo(screenX(marked), screenY(marked));
        pen.lineTo(screenX(other), screenY(other));
        pen.stroke();
      }
      pen.globalAlpha = 1;
      pen.lineWidth = 2;
      pen.beginPath();
      pen.arc(screenX(marked), screenY(marked), Math.min(dot[marked] * near, 11) + 3, 0, 7);
      pen.stroke();
    }
    names(pen, inside, marked, wide, high);
    const strip = ramp.getContext("2d");
    colours.steps.forEach((step, i) => { strip.fillStyle = step; strip.fillRect(i * 90 / 11, 0, 9, 8); });
  }
  function names(pen, inside, marked, wide, high) {
    // Show the names of the most frequent labels in view that do not overlap.
    pen.font = "500 12px system-ui, sans-serif";
    pen.textAlign = "center";
    pen.lineJoin = "round";
    const boxes = [];
    // A name hides no dot but its own.
    const dots = inside.length < 400 ? inside : [];
    const hides = (i, x, y, half) => dots.some((j) =>
      j !== i && Math.abs(screenX(j) - x) < half && Math.abs(screenY(j) + 4 - y) < 9);
    const wanted = marked >= 0 ? [marked, ...map.neighbours[marked]] : [];
    for (const i of [...wanted, ...inside.reverse()]) {
      if (boxes.length > 42) break;
      const text = map.names[i].length > 34 ? `${map.names[i].slice(0, 33)}…` : map.names[i];
      const half = pen.measureText(text).width / 2 + 4;
      const x = screenX(i);
      const y = screenY(i) - 9;
      if (x - half < 0 || x + half > wide || y < 58 || y > high - 34) continue;
      if (boxes.some((b) => Math.abs(b[0] - x) < b[2] + half && Math.abs(b[1] - y) < 17)) continue;
      if (!wanted.includes(i) && hides(i, x, y, half)) continue;
      boxes.push([x, y, half]);
      pen.strokeStyle = colour("--card");
      pen.lineWidth = 3.5;
      pen.strokeText(text, x, y);
      pen.fillStyle = colour(wanted.includes(i) ? "--accent" : "--ink");
      pen.fillText(text, x, y);
    }
  }
  function zoomAt(x, y, factor) {
    const least = Math.min(canvas.clientWidth, canvas.clientHeight) / (side * 2);
    const next = Math.min(Math.max(scale * factor, least), least * 400);
    shiftX = x - (x - shiftX) * next / scale;
    shiftY = y - (y - shiftY) * next / scale;
    scale = next;
    paint();
  }
  function nearestTo(x, y) {
    let best = -1;
    let least = 144;
    for (let i = 0; i < n; i += 1) {
      const a = screenX(i) - x;
      const b = screenY(i) - y;
      const distance = a * a + b * b;
      if (distance < least) { least = distance; best = i; }
    }
    return best;
  }
  function say(i) {
    tip.hidden = i < 0;
    if (i < 0) return;
    tip.replaceChildren(make("strong", {}, map.names[i]),
      make("div", { class: "soft" }, counted(map.counts[i], "training example") + (map.recall[i] === null ? "" : ` · recall ${percent(map.recall[i], 0)}`)),
      make("div", {}, map.neighbours[i].length ? `Nearest: ${map.neighbours[i].map((j) => map.names[j]).join("; ")}` : ""));
    if (narrow) { // below the map, where it hides the fewest labels
      tip.style.left = "8px";
      tip.style.top = `${canvas.clientHeight - tip.offsetHeight - 48}px`;
      return;
    }
    const x = screenX(i);
    const y = screenY(i);
    tip.style.left = `${Math.max(8, Math.min(x + 16, canvas.clientWidth - tip.offsetWidth - 8))}px`;
    tip.style.top = `${Math.max(8, Math.min(y + 16, canvas.clientHeight - tip.offsetHeight - 8))}px`;
  }
  function go(i) {
    chosen = i;
    const distances = mapX.map((x, j) => Math.hypot(x - mapX[i], mapY[j] - mapY[i])).sort((a, b) => a - b);
    const reach = distances[Math.min(AROUND, n - 1)] || side;
    const size = Math.min(canvas.clientWidth, canvas.clientHeight);
    scale = Math.max(size / side, Math.min(Math.max(scale, 9 * size / side), 0.46 * size / reach));
    shiftX = canvas.clientWidth / 2 - mapX[i] * scale;
    shiftY = canvas.clientHeight / 2 - mapY[i] * scale;
    list.replaceChildren();
    paint();
    say(i);
  }
  function search() {
    const words = input.value.trim().toLowerCase();
    const hits = [];
    for (let i = 0; i < n && words && hits.length < 12; i += 1) if (map.names[i].toLowerCase().includes(words)) hits.push(i);
    list.replaceChildren(...hits.map((i) => make("li", {}, make("button", { type: "button", onclick: () => go(i) }, map.names[i]))));
    return hits;
  }
  let dragging = null;
  canvas.addEventListener("pointerdown", (event) => { dragging = [event.clientX, event.clientY]; canvas.setPointerCapture(event.pointerId); canvas.classList.add("moving"); });
  canvas.addEventListener("pointerup", () => { dragging = null; canvas.classList.remove("moving"); });
  canvas.addEventListener("pointermove", (event) => {
    const bounds = canvas.getBoundingClientRect();
    if (dragging) {
      shiftX += event.clientX - dragging[0];
      shiftY += event.clientY - dragging[1];
      dragging = [event.clientX, event.clientY];
      say(-1);
      paint();
      return;
    }
    const nearest = nearestTo(event.clientX - bounds.left, event.clientY - bounds.top);
    if (nearest !== hovered) {
      hovered = nearest;
      say(nearest >= 0 ? nearest : chosen);
      paint();
    }
  });
  canvas.addEventListener("pointerleave", () => { hovered = -1; say(chosen); paint(); });
  canvas.addEventListener("wheel", (event) => {
    event.preventDefault();
    const bounds = canvas.getBoundingClientRect();
    zoomAt(event.clientX - bounds.left, event.clientY - bounds.top, Math.exp(-event.deltaY * 0.0015));
    say(-1);
  }, { passive: false });
  canvas.addEventListener("dblclick", () => { chosen = -1; say(-1); home(); paint(); });
  canvas.addEventListener("keydown", (event) => {
    const step = { ArrowLeft: [60, 0], ArrowRight: [-60, 0], ArrowUp: [0, 60], ArrowDown: [0, -60] }[event.key];
    if (step) { shiftX += step[0]; shiftY += step[1]; paint(); } else if (event.key === "+") zoomBy(1.3); else if (event.key === "-") zoomBy(1 / 1.3); else return;
    event.preventDefault();
  });
  input.addEventListener("input", search);
  input.addEventListener("keydown", (event) => {
    if (event.key === "Enter") { const hits = search(); if (hits.length) go(hits[0]); }
    if (event.key === "Escape") { input.value = ""; list.replaceChildren(); chosen = -1; say(-1); paint(); }
  });
  new ResizeObserver(() => { home(); paint(); }).observe(canvas);
  redraws.push(paint);
  return box;
}
if (data.map) {
  const selection = data.map.names.length < data.map.n_labels ? `The ${count(data.map.names.length)} most frequent of ${count(data.map.n_labels)} labels. ` : "";
  section("map", "Map", "Map of the labels",
    `${selection}Labels that the model predicts for the same examples are close together. Larger dots are more frequent labels, warmer colours a higher recall. Scroll to zoom, drag to move, hover over a label to see its neighbours.`,
    labelMap(data.map));
}

const SHOWN = 5; // explained examples that are open
// --- labels, confusions, explanations ------------------------------------------------------------------------------
const labelCell = (row) => make("div", {}, row.name, row.description ? make("div", { class: "soft small", title: row.description }, row.description) : null);
const labelRows = (title, rows) => table(title, ["label", narrow ? "train" : "training", "test", narrow ? "prec." : "precision", "recall", "F1"],
  rows.map((row) => [labelCell(row), count(row.count), count(row.true), percent(row.precision, 0), percent(row.recall, 0), percent(row.f1, 0)]), [1, 2, 3, 4, 5]);
section("labels", "Labels", "Best and worst labels", `Labels with ${count(data.labels.min_count)} or more test examples, by F1 of the first ${model.top_k} predictions.`,
  make("div", { class: "grid" }, make("div", { class: "card" }, make("h3", {}, "Best"), labelRows("Best labels", data.labels.best)),
    make("div", { class: "card" }, make("h3", {}, "Worst"), labelRows("Worst labels", data.labels.worst))));

section("confusions", "Confusions", "Confused labels",
  data.confusions.length ? "Pairs where one label was true and missed while the other was predicted and wrong, more often than by chance." : "No two labels are confused more often than by chance.",
  data.confusions.length ? make("div", { class: "card" }, ...data.confusions.map((pair) => make("details", {},
    make("summary", {}, make("b", {}, pair.true), " predicted as ", make("b", {}, pair.predicted),
      make("span", { class: "soft" }, ` · ${times(pair.count)}, ${percent(pair.rate, 0)} of its examples` + (pair.reverse ? ` · ${times(pair.reverse)} in reverse` : ""))),
    ...(pair.examples.length ? pair.examples.map((text) => make("p", { class: "quote" }, text)) : [make("p", { class: "quote" }, "The examples are features, not texts.")])))) : null);

function meter(probability) {
  const bar = make("i");
  bar.style.width = `${100 * probability}%`;
  return make("span", { class: "meter", "aria-hidden": "true" }, bar);
}
function explained(example) {
  const words = make("div", { class: "words" });
  const sum = make("div", { class: "sum" });
  const buttons = example.predictions.map((prediction) => make("button", { type: "button", class: `tag ${prediction.right ? "right" : "wrong"}`, onclick: () => show(prediction) },
    make("span", { class: "sr" }, prediction.right ? "right: " : "wrong: "), `${prediction.name} `, make("small", {}, percent(prediction.probability, 0)), meter(prediction.probability)));
  function show(prediction) {
    buttons.forEach((button, i) => button.setAttribute("aria-pressed", String(example.predictions[i] === prediction)));
    words.replaceChildren();
    if (example.text !== null) {
      // Positions count code points, and a character of a JavaScript string may be half of one.
      const characters = Array.from(example.text);
      const densest = Math.max(...prediction.segments.map(([start, stop, value]) => Math.abs(value)), 1e-9);
      let at = 0;
      for (const [start, stop, value] of prediction.segments) {
        words.append(characters.slice(at, start).join(""));
        const mark = make("mark", { title: signed(value) }, characters.slice(start, stop).join(""));
        const strength = Math.min(1, Math.abs(value) / densest) ** 0.7;
        if (strength > 0.06) mark.style.backgroundColor = `rgba(${colour(value > 0 ? "--plus" : "--minus")}, ${(colour("--mark") * strength).toFixed(2)})`;
        words.append(mark);
        at = stop;
      }
      words.append(characters.slice(at).join(""));
    }
    const listed = prediction.words.reduce((total, [, value]) => total + value, 0);
    sum.replaceChildren("Log-odds ", make("b", {}, minus(prediction.log_odds)), ` = ${minus(prediction.base)} for an empty text`,
      ...prediction.words.flatMap(([word, value]) => [", ", make("b", {}, word), `\u00a0${signed(value)}`]),
      `, ${signed(prediction.log_odds - prediction.base - prediction.comparison - listed)} for all other words`,
      ` and ${signed(prediction.comparison)} for the comparison with other labels.`,
      ...prediction.estimates.map(({ part, words: estimated }) => make("div", { class: "estimated" }, `Estimates for the ${part}, by leaving a word out, which do not add up:`,
        ...estimated.flatMap(([word, value], i) => [i ? ", " : " ", make("b", {}, word), ` ${signed(value)}`]))));
  }
  if (example.predictions.length) show(example.predictions[0]);
  redraws.push(() => { const on = buttons.findIndex((button) => button.getAttribute("aria-pressed") === "true"); if (on >= 0) show(example.predictions[on]); });
  return make("div", { class: "card example" }, make("div", {}, ...buttons), words, sum,
    make("details", {}, make("summary", { class: "soft" }, counted(example.true.length, "true label")), make("p", { class: "quote" }, example.true.join("; ") || "none")));
}
section("explained", "Explanations", "Explained predictions",
  "Random test examples. The percentage and the bar of a label show its calibrated probability. Choose a label to see which words increase its log-odds (warm) and which decrease them (cool). The contributions sum to the log-odds exactly.",
  ...data.explained.slice(0, SHOWN).map(explained),
  data.explained.length > SHOWN ? make("details", { class: "rest" }, make("summary", {}, counted(data.explained.length - SHOWN, "more example")), ...data.explained.slice(SHOWN).map(explained)) : null);

// --- settings ------------------------------------------------------------------------------------------------------
function formatted(value) {
  if (value === null || value === undefined) return "none";
  if (typeof value === "number" && !Number.isInteger(value)) return String(Number(value.toPrecision(4)));
  return Array.isArray(value) ? value.map(formatted).join(", ") : String(value);
}
// Nested settings as names and values.
function flat(settings, prefix = "") {
  return Object.entries(settings).flatMap(([name, value]) =>
    value !== null && typeof value === "object" && !Array.isArray(value)
      ? flat(value, name === "settings" ? prefix : `${prefix}${name}, `) : [[(prefix + name).replaceAll("_", " "), formatted(value)]]);
}
// The candidates, with the columns in which they differ.
function candidates(trials) {
  const rows = trials.map((trial) => Object.fromEntries(flat(trial)));
  const first = (name) => (name === "outcome" ? 0 : name === "part" ? 1 : name.includes("@") ? 2 : 3);
  const names = [...new Set(rows.flatMap(Object.keys))]
    .filter((name) => name === "outcome" || new Set(rows.map((row) => row[name])).size > 1)
    .sort((a, b) => first(a) - first(b));
  return table("Candidates", names, rows.map((row) => Object.assign(names.map((name) => row[name] ?? ""), { strong: row.outcome === "chosen" })));
}
section("settings", "Settings", "Settings", [...data.about, data.fit_seconds ? `Training took ${seconds(data.fit_seconds)}.` : ""].join(" ").replaceAll(" %", "\u00a0%"),
  make("div", { class: "card" }, table("Settings", ["setting", "value"], flat(data.settings))),
  ...(data.selection.length ? [make("div", { class: "card" }, make("h3", {}, "Candidates on held-out training data"), make("p", { class: "sum" }, "Those in bold are part of the model."), candidates(data.selection))] : []),
  ...(data.notes.length ? [make("div", { class: "card" }, make("h3", {}, "Notes on the test data"), ...data.notes.map((note) => make("p", { class: "sum" }, note)))] : []));
document.getElementById("foot").textContent = `Made by Rembrandt ${data.version} on ${data.made}. This file works offline and sends no requests.`;
