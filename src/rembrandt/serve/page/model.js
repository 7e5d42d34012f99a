// Settings, measurements and spectrum of a model.
import * as api from "./api.js";
import { h, svg, formatCount } from "./dom.js";
import { percent } from "./percent.js";

const PARTS = { trees: "label trees", centroids: "label centroids", embedding: "label embedding", names: "names of labels", encoder: "an encoder" };

export async function model(root) {
  const facts = await api.details();
  const tiles = [
    ["labels", formatCount(facts.n_labels)],
    ["features", formatCount(facts.n_features)],
    ["training examples", formatCount(facts.n_train)],
    ...(facts.rank === null ? [] : [["dimensions", formatCount(facts.rank)]]),
  ];
  root.append(
    h(
      "section",
      { class: "card" },
      h("h1", null, facts.name),
      h("p", { class: "facts" }, `version ${facts.version}, saved ${new Date(facts.saved_at).toLocaleString("en", { dateStyle: "medium", timeStyle: "short" })}, takes ${facts.takes}`),
      h("p", { class: "facts" }, `Its predictions come from ${new Intl.ListFormat("en").format(facts.parts.map((name) => PARTS[name] ?? name))}.`),
      facts.about.map((sentence) => h("p", { class: "about" }, sentence.replaceAll(" %", "\u00a0%"))),
      h("dl", { class: "tiles" }, tiles.map(([name, value]) => h("div", null, h("dt", null, name), h("dd", null, value)))),
    ),
  );
  if (facts.singular_values.length)
    root.append(section("Spectrum", "Importance of each dimension of the label embedding, in decreasing order; both axes are logarithmic.", spectrum(facts.singular_values)));
  if (Object.keys(facts.metrics).length) root.append(section("Measurements", "Saved with the model.", pairs(facts.metrics)));
  if (facts.selection.length) root.append(section("Candidates", "Tried on held-out training data, best first. Those in bold are part of the model.", candidates(facts.selection)));
  root.append(section("Settings", "Parameters of the fit.", pairs(facts.settings)));
}

const section = (title, about, body) =>
  h("section", { class: "card" }, h("h2", null, title), h("p", { class: "facts" }, about), h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": title }, body));

/** Nested values as names and texts. */
function flat(value, path = "") {
  if (value === null || typeof value !== "object") return [[path, formatValue(value)]];
  if (Array.isArray(value)) return [[path, value.length > 12 || value.some((entry) => typeof entry === "object") ? `${value.length} entries` : value.map(formatValue).join(", ")]];
  // The settings of a part stand directly below its name.
  const below = (name) => (name === "settings" ? path : path ? `${path} · ${name}` : name);
  return Object.entries(value).flatMap(([name, item]) => flat(item, below(name)));
}

function formatValue(value) {
  if (typeof value === "number" && !Number.isInteger(value)) return String(Number(value.toPrecision(4)));
  if (value === null || value === "") return "–";
  return typeof value === "boolean" ? (value ? "yes" : "no") : String(value);
}

const pairs = (facts) =>
  h("table", { class: "pairs" }, h("tbody", null, flat(facts).map(([name, value]) => h("tr", null, h("th", { scope: "row" }, name.replaceAll("_", " ")), h("td", null, value)))));

/** The candidates, with the columns in which they differ. */
function candidates(trials) {
  const measure = (name) => name.includes("@") || name === "quality";
  const shown = (trial) => flat(trial).map(([name, value]) => [name, measure(name) ? percent(trial[name]) : value]);
  const rows = [...trials].sort((a, b) => (b.quality ?? 0) - (a.quality ?? 0)).map((trial) => Object.fromEntries(shown(trial)));
  const first = (name) => (name === "outcome" ? 0 : name === "part" ? 1 : name.includes("@") ? 2 : 3);
  const columns = [...new Set(rows.flatMap(Object.keys))]
    .filter((name) => name === "outcome" || new Set(rows.map((row) => row[name])).size > 1)
    .sort((a, b) => first(a) - first(b));
  return h(
    "table",
    null,
    h("thead", null, h("tr", null, columns.map((name) => h("th", { scope: "col" }, name.replaceAll("_", " ").replace(/^p@/, "P@"))))),
    h("tbody", null, rows.map((row) => h("tr", { class: row.outcome === "chosen" ? "chosen" : null }, columns.map((name) => h("td", null, row[name] ?? ""))))),
  );
}

/** Round values between two powers of ten: 1, 2 and 5 where there are few powers. */
function steps(low, high) {
  const factors = high - low < 2 ? [1, 2, 5] : [1];
  const stride = Math.max(1, Math.ceil((high - low) / 5));
  const values = [];
  for (let power = Math.floor(low); power <= high; power += stride)
    for (const factor of factors) {
      const value = factor * 10 ** power;
      const place = Math.log10(value);
      if (place >= low - 1e-9 && place <= high + 1e-9) values.push(Number(value.toPrecision(1)));
    }
  return values;
}

function spectrum(values) {
  const positive = values.map((value, i) => [i + 1, value]).filter(([, value]) => value > 0);
  if (positive.length < 2) return h("p", { class: "hint" }, "There are too few values to plot.");
  const [width, height, left, bottom, top] = [innerWidth < 640 ? 340 : 860, 280, 56, 34, 12];
  const last = Math.log10(positive.at(-1)[0]);
  const high = Math.log10(Math.max(...positive.map(([, value]) => value)));
  const low = Math.log10(Math.min(...positive.map(([, value]) => value)));
  const x = (rank) => left + ((width - left - 12) * Math.log10(rank)) / last;
  const y = (value) => top + ((height - top - bottom) * (high - Math.log10(value))) / (high - low || 1);
  const upright = (rank) => svg("g", null, svg("line", { class: "grid", x1: x(rank), x2: x(rank), y1: top, y2: height - bottom }), svg("text", { x: x(rank), y: height - 12, "text-anchor": "middle" }, formatCount(rank)));
  const level = (value) => svg("g", null, svg("line", { class: "grid", x1: left, x2: width - 12, y1: y(value), y2: y(value) }), svg("text", { x: left - 8, y: y(value) + 4, "text-anchor": "end" }, value >= 0.01 && value < 1e5 ? formatCount(value) : value.toExponential(0)));
  const ticks = [...steps(0, last).map(upright), ...steps(low, high).map(level)];
  const line = positive.map(([rank, value]) => `${x(rank).toFixed(1)},${y(value).toFixed(1)}`);
  const floor = height - bottom;
  return svg(
    "svg",
    { class: "chart", viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": `Spectrum of ${values.length} values, from ${positive[0][1].toPrecision(3)} down to ${positive.at(-1)[1].toPrecision(3)}` },
    ticks,
    svg("polygon", { class: "area", points: `${x(1)},${floor} ${line.join(" ")} ${x(positive.at(-1)[0])},${floor}` }),
    svg("polyline", { class: "line", points: line.join(" ") }),
  );
}
