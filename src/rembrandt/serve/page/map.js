// The map of the labels: drag, zoom, hover, select.
import * as api from "./api.js";
import { withArrowKeys, hideError, showError, debounce, h, formatCount, counted } from "./dom.js";
import { labelDetails } from "./labels.js";

const MAX_ZOOM = 400; // relative to the view of all labels
const REACH = 14; // pixels within which the pointer selects a label
const NAMES = 60; // shown at the same time
const HUES = 24;
const AROUND = 20; // labels that are in view around one that is moved to

export async function map(root, state, initial) {
  const canvas = h("canvas", {
    tabindex: "0",
    role: "application",
    "aria-label": "Map of the labels. Arrow keys move, plus and minus zoom, zero shows all labels; use the search field to find a label.",
  });
  const tip = h("div", { class: "tip", hidden: true });
  const input = h("input", { id: "map-query", type: "search", placeholder: "Find on the map …", autocomplete: "off", "aria-label": "Find a label on the map" });
  const matches = withArrowKeys(h("ul", { class: "found" }), "button");
  const panel = h("div", { class: "panel", "aria-live": "polite" });
  const note = h("p", { class: "quiet", role: "status" }, "Loading the map …");
  const tool = (name, sign, act) => h("button", { type: "button", class: "icon", "aria-label": name, onclick: act }, sign);
  const zoomed = (factor) => () => zoom(factor, canvas.clientWidth / 2, canvas.clientHeight / 2);
  root.append(
    h("div", { class: "stage" }, canvas, tip, h("div", { class: "zoom" }, tool("Zoom in", "+", zoomed(1.6)), tool("Zoom out", "−", zoomed(1 / 1.6)), tool("Show all labels", "⤢", () => reset()))),
    h("aside", { class: "card" }, h("h1", null, "The label map"), input, matches, note, panel),
  );

  let points = { x: [], y: [], label: [], name: [], count: [] };
  let indexOf = new Map();
  let view = { k: 1, x: 0, y: 0 };
  let hovered = -1;
  let selected = -1;
  let near = [];
  let frame = 0;
  let closed = false;
  let hues = [];
  const context = canvas.getContext("2d");

  const toScreen = (i) => [points.x[i] * view.k + view.x, points.y[i] * view.k + view.y];
  const room = () => view.k / Math.sqrt(points.x.length); // pixels between two labels, if they were on a grid
  const radius = (i) => Math.min(9, (1.1 + 0.9 * Math.log10(1 + points.count[i])) * Math.max(1, Math.min(1.8, Math.max((view.k / base()) ** 0.25, room() / 45))));
  const base = () => 0.92 * Math.min(canvas.clientWidth, canvas.clientHeight);
  const redraw = () => { frame ||= requestAnimationFrame(draw); };

  function reset() {
    const k = base();
    view = { k, x: (canvas.clientWidth - k) / 2, y: (canvas.clientHeight - k) / 2 };
    redraw();
  }

  function zoom(factor, px, py) {
    const k = Math.max(base() / 2, Math.min(base() * MAX_ZOOM, view.k * factor));
    const f = k / view.k;
    view = { k, x: px - (px - view.x) * f, y: py - (py - view.y) * f };
    redraw();
  }

  function moveTo(i) {
    const distances = points.x.map((x, j) => Math.hypot(x - points.x[i], points.y[j] - points.y[i])).sort((a, b) => a - b);
    const reach = distances[Math.min(AROUND, distances.length - 1)] || 1;
    const k = Math.max(base(), Math.min(Math.max(view.k, base() * 6), (0.46 * base()) / reach));
    const to = { k, x: canvas.clientWidth / 2 - points.x[i] * k, y: canvas.clientHeight / 2 - points.y[i] * k };
    const from = { ...view };
    const still = matchMedia("(prefers-reduced-motion: reduce)").matches;
    const begin = performance.now();
    const step = (now) => {
      const t = still ? 1 : Math.min(1, (now - begin) / 450);
      const e = 1 - (1 - t) ** 3;
      const scale = from.k * (to.k / from.k) ** e;
      // The point moves along a straight line on the screen while the scale changes.
      const line = (a, b, p) => (1 - e) * (p * from.k + a) + e * (p * to.k + b) - p * scale;
      view = { k: scale, x: line(from.x, to.x, points.x[i]), y: line(from.y, to.y, points.y[i]) };
      redraw();
      if (t < 1 && !closed) requestAnimationFrame(step);
    };
    requestAnimationFrame(step);
  }

  function draw() {
    frame = 0;
    const dark = document.documentElement.dataset.theme === "dark";
    const style = getComputedStyle(document.documentElement);
    const ink = style.getPropertyValue("--ink");
    const paper = style.getPropertyValue("--sunk");
    const accent = style.getPropertyValue("--accent");
    const ratio = devicePixelRatio || 1;
    const [width, height] = [canvas.clientWidth, canvas.clientHeight];
    if (canvas.width !== Math.round(width * ratio) || canvas.height !== Math.round(height * ratio)) {
      canvas.width = Math.round(width * ratio);
      canvas.height = Math.round(height * ratio);
    }
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    context.clearRect(0, 0, width, height);
    const visible = [];
    for (let i = 0; i < points.x.length; i++) {
      const [x, y] = toScreen(i);
      if (x > -10 && y > -10 && x < width + 10 && y < height + 10) visible.push(i);
    }
    context.globalAlpha = visible.length > 4000 ? 0.6 : 0.8;
    for (let hue = 0; hue < HUES; hue++) {
      context.fillStyle = `hsl(${(360 * hue) / HUES} ${dark ? "52% 66%" : "48% 46%"})`;
      context.beginPath();
      for (const i of visible) {
        if (hues[i] !== hue) continue;
        const [x, y] = toScreen(i);
        const r = radius(i);
        context.moveTo(x + r, y);
        context.arc(x, y, r, 0, 7);
      }
      context.fill();
    }
    context.globalAlpha = 1;
    const predicted = (state.answer?.labels ?? []).map((prediction) => indexOf.get(prediction.label)).filter((i) => i !== undefined);
    if (selected >= 0) {
      context.strokeStyle = accent;
      context.globalAlpha = 0.5;
      context.lineWidth = 1;
      context.beginPath();
      for (const i of near) {
        context.moveTo(...toScreen(selected));
        context.lineTo(...toScreen(i));
      }
      context.stroke();
      context.globalAlpha = 1;
    }
    context.lineWidth = 2;
    context.strokeStyle = accent;
    for (const i of [...predicted, ...(selected >= 0 ? [selected] : []), ...(hovered >= 0 ? [hovered] : [])]) {
      const [x, y] = toScreen(i);
      context.beginPath();
      context.arc(x, y, radius(i) + 3.5, 0, 7);
      context.stroke();
    }
    names([...new Set([...(selected >= 0 ? [selected] : []), ...predicted, ...near, ...visible])], new Set([selected, ...predicted, ...near]), width, height, ink, paper);
  }

  /** Draw names where there is room: selected labels first, then the most frequent. */
  function names(order, strong, width, height, ink, paper) {
    const taken = [];
    context.textBaseline = "middle";
    context.lineJoin = "round";
    let written = 0;
    for (const i of order.slice(0, 2500)) {
      if (written >= NAMES) break;
      const [x, y] = toScreen(i);
      if (x < 0 || y < 8 || y > height - 8 || x > width) continue;
      context.font = `${strong.has(i) ? 600 : 450} 12px system-ui, sans-serif`;
      const name = points.name[i].length > 34 ? `${points.name[i].slice(0, 32)}…` : points.name[i];
      const gap = strong.has(i) ? 9 : 4; // beside the ring
      const box = [x + radius(i) + gap, y - 8, context.measureText(name).width + 4, 16];
      if (box[0] + box[2] > width - 4) box[0] = x - radius(i) - gap - box[2];
      if (box[0] < 4) continue;
      if (taken.some((b) => box[0] < b[0] + b[2] + 8 && b[0] < box[0] + box[2] + 8 && box[1] < b[1] + b[3] && b[1] < box[1] + box[3])) continue;
      taken.push(box);
      written += 1;
      context.lineWidth = 4;
      context.strokeStyle = paper;
      context.strokeText(name, box[0], y);
      context.fillStyle = ink;
      context.fillText(name, box[0], y);
    }
  }

  function nearestPoint(px, py) {
    let best = -1;
    let least = REACH ** 2;
    for (let i = 0; i < points.x.length; i++) {
      const [x, y] = toScreen(i);
      const distance = (x - px) ** 2 + (y - py) ** 2;
      if (distance < least) [best, least] = [i, distance];
    }
    return best;
  }

  async function select(i) {
    selected = i;
    near = [];
    matches.replaceChildren();
    redraw();
    try {
      const answer = await api.neighbors(points.label[i], 10);
      if (selected !== i || closed) return;
      hideError();
      near = answer.neighbors.map((neighbor) => indexOf.get(neighbor.label)).filter((j) => j !== undefined);
      panel.replaceChildren(...labelDetails(answer));
      for (const link of panel.querySelectorAll("a.label")) {
        link.addEventListener("click", (event) => {
          const j = indexOf.get(decodeURIComponent(link.hash.slice("#/labels/".length)));
          if (j === undefined) return; // not on the map: follow the link
          event.preventDefault();
          select(j);
          moveTo(j);
        });
      }
      redraw();
    } catch (error) {
      showError(error.message);
    }
  }

  function hover(px, py) {
    const i = nearestPoint(px, py);
    canvas.style.cursor = i >= 0 ? "pointer" : "grab";
    tip.hidden = i < 0;
    if (i >= 0) {
      const [x, y] = toScreen(i);
      tip.replaceChildren(h("b", null, points.name[i]), h("span", null, counted(points.count[i], "training example")));
      tip.style.left = `${Math.max(4, Math.min(x + 14, canvas.clientWidth - tip.offsetWidth - 4))}px`;
      tip.style.top = `${Math.max(4, Math.min(y + 14, canvas.clientHeight - tip.offsetHeight - 4))}px`;
    }
    if (i !== hovered) {
      hovered = i;
      redraw();
    }
  }

  /** A list entry that moves the map to its label. */
  function mapEntry(entry) {
    const i = indexOf.get(entry.label);
    const go = () => { select(i); moveTo(i); };
    return h("li", null, h("button", { type: "button", onclick: go }, h("span", { class: "name" }, entry.name), h("span", { class: "quiet number" }, formatCount(points.count[i]))));
  }

  const pointers = new Map();
  let dragged = 0;
  canvas.addEventListener("pointerdown", (event) => {
    canvas.setPointerCapture(event.pointerId);
    pointers.set(event.pointerId, [event.offsetX, event.offsetY]);
    dragged = 0;
  });
  canvas.addEventListener("pointermove", (event) => {
    const before = pointers.get(event.pointerId);
    const now = [event.offsetX, event.offsetY];
    if (!before) {
      hover(...now);
      return;
    }
    const other = [...pointers].find(([id]) => id !== event.pointerId)?.[1];
    if (other) zoom(Math.hypot(now[0] - other[0], now[1] - other[1]) / Math.max(1, Math.hypot(before[0] - other[0], before[1] - other[1])), ...other);
    else view = { ...view, x: view.x + now[0] - before[0], y: view.y + now[1] - before[1] };
    dragged += Math.hypot(now[0] - before[0], now[1] - before[1]);
    pointers.set(event.pointerId, now);
    tip.hidden = true;
    redraw();
  });
  for (const end of ["pointerup", "pointercancel"]) {
    canvas.addEventListener(end, (event) => {
      pointers.delete(event.pointerId);
      const i = end === "pointerup" && dragged < 4 ? nearestPoint(event.offsetX, event.offsetY) : -1;
      if (i >= 0) select(i);
    });
  }
  canvas.addEventListener("pointerleave", () => { tip.hidden = true; hovered = -1; redraw(); });
  canvas.addEventListener("wheel", (event) => {
    event.preventDefault();
    zoom(Math.exp(-event.deltaY * (event.ctrlKey ? 0.01 : 0.0015)), event.offsetX, event.offsetY);
  }, { passive: false });
  canvas.addEventListener("keydown", (event) => {
    const step = 60;
    const moves = { ArrowLeft: [step, 0], ArrowRight: [-step, 0], ArrowUp: [0, step], ArrowDown: [0, -step] };
    if (moves[event.key]) view = { ...view, x: view.x + moves[event.key][0], y: view.y + moves[event.key][1] };
    else if (event.key === "+" || event.key === "=") zoomed(1.4)();
    else if (event.key === "-") zoomed(1 / 1.4)();
    else if (event.key === "0") reset();
    else return;
    event.preventDefault();
    redraw();
  });

  input.addEventListener("input", debounce(async () => {
    try {
      const hits = input.value.trim() ? (await api.labels(input.value, 8)).labels.filter((match) => indexOf.has(match.label)) : [];
      if (input.value.trim() && !hits.length) {
        matches.replaceChildren(h("li", { class: "hint" }, "No label on the map contains this text."));
        return;
      }
      matches.replaceChildren(...hits.map(mapEntry));
    } catch (error) {
      showError(error.message);
    }
  }, 120));
  input.addEventListener("keydown", (event) => {
    if (event.key === "Enter") matches.querySelector("button")?.click();
    if (event.key === "ArrowDown") { event.preventDefault(); matches.querySelector("button")?.focus(); }
  });

  const watcher = new ResizeObserver(redraw);
  watcher.observe(canvas);
  addEventListener("theme", redraw);

  async function load() {
    const answer = await api.map();
    if (closed) return;
    if (answer.state === "working") {
      note.textContent = answer.message;
      setTimeout(() => load().catch((error) => showError(error.message)), 1500);
      return;
    }
    note.textContent = answer.state === "ready" ? `${counted(answer.x.length, "label")}. Labels that are predicted for the same examples are close together.` : answer.message;
    if (answer.state !== "ready") return;
    points = scaled(answer);
    indexOf = new Map(points.label.map((label, i) => [label, i]));
    hues = huesOf(points);
    reset();
    root.dataset.ready = "yes";
    const last = (state.answer?.labels ?? []).filter((prediction) => indexOf.has(prediction.label));
    if (last.length) panel.replaceChildren(h("h2", null, "Last prediction"), withArrowKeys(h("ul", { class: "found" }, last.map(mapEntry)), "button"));
    else panel.replaceChildren(h("p", { class: "hint" }, "Drag to move, scroll to zoom, click a label to see its neighbours."));
    if (initial && indexOf.has(initial)) {
      select(indexOf.get(initial));
      moveTo(indexOf.get(initial));
    }
  }
  await load();

  return () => {
    closed = true;
    watcher.disconnect();
    removeEventListener("theme", redraw);
  };
}

/** Scale positions to the unit square; outliers are moved to its edge, so that they do not determine the scale. */
function scaled(answer) {
  const stretch = (values) => {
    const sorted = Float64Array.from(values).sort();
    const quantile = (share) => sorted[Math.round(share * (sorted.length - 1))] ?? 0;
    const room = 0.25 * (quantile(0.998) - quantile(0.002));
    return [Math.max(quantile(0), quantile(0.002) - room), Math.min(quantile(1), quantile(0.998) + room)];
  };
  const [x0, x1] = stretch(answer.x);
  const [y0, y1] = stretch(answer.y);
  const size = Math.max(x1 - x0, y1 - y0) || 1;
  const to = (value, low, high) => 0.5 + (Math.max(low, Math.min(high, value)) - (low + high) / 2) / size;
  return { ...answer, x: answer.x.map((x) => to(x, x0, x1)), y: answer.y.map((y) => to(y, y0, y1)) };
}

/** Choose the hue by the direction from the centre, so that neighbours have similar colours. */
function huesOf(points) {
  return points.x.map((x, i) => Math.floor((HUES * (Math.atan2(points.y[i] - 0.5, x - 0.5) + Math.PI)) / (2 * Math.PI)) % HUES);
}
