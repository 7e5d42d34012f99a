// Predict the labels of a text, and show the contributions of its words.
import * as api from "./api.js";
import { withArrowKeys, bar, hideError, showError, debounce, h, labelLink, nameOf, formatPercent, formatSigned, formatCount, counted } from "./dom.js";

const PAUSE = 350; // milliseconds after the last key before a request is sent
const SHOWN = 4; // example texts
const SHOWN_WORDS = 8; // of an explanation
const LONG = 5000; // characters of an example text at most
const WORDS = /^\p{L}[\p{L}\p{M} ,'’-]{3,60}$/u; // a name that is made of words

export async function classify(root, state) {
  const texts = state.model.takes === "texts";
  const input = h("textarea", {
    id: "text",
    rows: 6,
    spellcheck: "false",
    placeholder: texts ? "Type or paste a text …" : 'A vector: {"feature": value, …}',
  });
  const size = h("span", { class: "quiet" });
  const top = h("select", { id: "top" }, [5, 10, 20, 50].map((k) => h("option", { value: k }, String(k))));
  const results = h("section", { class: "card results", "aria-labelledby": "labels-title" });
  const said = h("p", { class: "sr", role: "status" }); // read aloud; the whole list would be too much after each word
  const examples = h("div", { class: "examples", role: "group", "aria-label": "Examples", hidden: true });
  const why = h("section", { class: "card why", "aria-labelledby": "why-title" });
  input.value = state.text;
  top.value = String(state.top);

  const button = h("button", { class: "primary", type: "submit" }, "Find labels");
  const form = h(
    "form",
    { class: "card composer" },
    h("label", { for: "text" }, h("h1", null, texts ? "What is this text about?" : "What is this example?")),
    input,
    examples,
    h("div", { class: "row" }, size, h("span", { class: "grow" }), h("label", { class: "quiet", for: "top" }, "labels"), top, button),
  );
  root.append(h("div", { class: "left" }, form, why), results, said);

  let request = null;
  let lastInput = null; // the same input is not sent twice, so that the selected label stays selected
  async function predict() {
    const text = input.value;
    if (lastInput === `${state.top} ${text}`) return;
    lastInput = `${state.top} ${text}`;
    request?.abort();
    state.text = text;
    size.textContent = texts ? counted([...text].length, "character") : "";
    if (!text.trim()) {
      state.answer = null;
      said.textContent = "";
      empty();
      return;
    }
    const controller = (request = new AbortController());
    results.setAttribute("aria-busy", "true");
    try {
      const body = texts ? { texts: [text] } : { vectors: [parseVector(text)] };
      const answer = await api.predict({ ...body, top_k: state.top, explain: true }, controller.signal);
      hideError();
      state.answer = { text, labels: answer.predictions[0] };
      draw(0);
      const [best] = state.answer.labels;
      said.textContent = best ? `${counted(state.answer.labels.length, "label")}. The first is ${best.name}, ${formatPercent(best.probability)}.` : "No label was found.";
    } catch (error) {
      if (error.name === "AbortError") return;
      lastInput = null;
      showError(error.message);
    } finally {
      if (request === controller) results.removeAttribute("aria-busy");
    }
  }

  function empty() {
    results.replaceChildren(
      h("h2", { id: "labels-title" }, "Labels"),
      h("p", { class: "hint" }, `The best of ${formatCount(state.model.n_labels)} labels appear here as you type, with the words that explain them.`),
    );
    why.hidden = true;
  }

  function draw(index) {
    const { labels } = state.answer;
    const firstBelow = labels.findIndex((prediction) => !prediction.assigned);
    const line = firstBelow > 0 ? "Below the threshold" : "No label reaches the threshold";
    const rows = labels.flatMap((prediction, i) => [
      i === firstBelow ? h("li", { class: "threshold" }, line) : null,
      h(
        "li",
        null,
        h(
          "button",
          { type: "button", class: "label", "aria-pressed": String(i === index), onclick: () => select(i), onfocus: () => select(i) },
          nameOf(prediction),
          h("span", { class: "value" }, formatPercent(prediction.probability)),
          bar(prediction.probability),
        ),
      ),
    ]);
    const list = withArrowKeys(h("ol", { class: "ranking" }, rows), "button");
    const about = labels.length
      ? h("p", { class: "facts" }, "The probability that a label is right. Choose one to see why.")
      : h("p", { class: "hint" }, texts ? "No label was found: the model knows no word of this text." : "No label was found.");
    results.replaceChildren(h("h2", { id: "labels-title" }, "Labels"), about, ...(labels.length ? [list] : []));
    select(index);
  }

  function select(index) {
    const { labels, text } = state.answer;
    results.querySelectorAll("button.label").forEach((button, i) => button.setAttribute("aria-pressed", String(i === index)));
    why.hidden = !labels.length;
    if (labels.length) why.replaceChildren(...explanationOf(labels[index], texts ? text : null));
  }

  input.addEventListener("input", debounce(predict, PAUSE));
  input.addEventListener("keydown", (event) => {
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) predict();
  });
  top.addEventListener("change", () => {
    state.top = Number(top.value);
    predict();
  });
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    predict();
  });
  if (state.answer) {
    size.textContent = texts ? counted([...state.text].length, "character") : "";
    draw(0);
  } else if (state.text) predict();
  else empty();
  if (matchMedia("(pointer: fine)").matches) input.focus({ preventScroll: true });
  const inputs = await exampleInputs(state.model, texts).catch(() => []); // the view works without them
  const use = (text) => { input.value = text; predict(); };
  examples.append(h("span", { class: "quiet" }, "Examples"), ...inputs.map((text) => h("button", { type: "button", class: "example", title: text.slice(0, 300), onclick: () => use(text) }, text)));
  examples.hidden = !inputs.length;
  return () => request?.abort();
}

/** Inputs to click: those saved with the model, or else the names of frequent labels that are words. */
async function exampleInputs(model, texts) {
  const saved = model.examples?.filter?.((text) => typeof text === "string" && text.trim() && text.length <= LONG) ?? [];
  if (saved.length || !texts) return saved.slice(0, SHOWN);
  const { labels } = await api.labels("", 50);
  return labels.map((label) => label.name).filter((name) => WORDS.test(name)).slice(0, SHOWN);
}

function parseVector(text) {
  try {
    return JSON.parse(text);
  } catch {
    throw new Error('This is not a vector; write it as {"feature": value, …}.');
  }
}

const minus = (value) => value.toFixed(3).replace("-", "−");

function explanationOf(prediction, text) {
  const { words, segments, base, comparison, rest: unlisted, log_odds: logOdds, estimates } = prediction.explanation;
  const others = words.slice(SHOWN_WORDS).reduce((sum, word) => sum + word.contribution, unlisted);
  return [
    h("h2", { id: "why-title" }, "Why ", h("a", { href: labelLink(prediction.label) }, prediction.name)),
    prediction.description ? h("p", { class: "about" }, prediction.description) : "",
    text === null ? "" : h("p", { class: "reading" }, markedText(text, segments)),
    wordTable("Contribution of each word to the log-odds", words, text !== null),
    h(
      "p",
      { class: "quiet sum" },
      `Log-odds ${minus(logOdds)} = ${minus(base)} for an empty text, plus the words above, ${formatSigned(others)} for all other words and ${formatSigned(comparison)} for the comparison with other labels.`,
      text !== null && words.slice(0, SHOWN_WORDS).some(isWhole) ? " The whole text, in italics, stands for what parts that read more than single words add." : null,
    ),
    ...estimates.flatMap(({ part, words: estimated }) => [
      h("h3", { class: "estimated" }, `Estimated words of the ${part}`),
      wordTable(`Estimated contribution of each word to the ${part}`, estimated),
      h("p", { class: "quiet sum" }, `The ${part} reads the text as a whole. These are estimates: how much the log-odds fall without the word. They do not add up.`),
    ]),
  ];
}

/** Whether a contribution belongs to no place in the text. */
const isWhole = (word) => !word.spans.length;

/** The strongest words with bars; `marksWhole` puts what is not a word in italics. */
function wordTable(caption, words, marksWhole = false) {
  const strongest = Math.max(1e-9, ...words.map((word) => Math.abs(word.contribution)));
  const rows = words.slice(0, SHOWN_WORDS).map((word) =>
    h("tr", null, h("th", { scope: "row", class: marksWhole && isWhole(word) ? "whole" : null }, word.word), h("td", null, bar(word.contribution / strongest, true)), h("td", { class: "number" }, formatSigned(word.contribution))),
  );
  return h("table", { class: "words" }, h("caption", { class: "sr" }, caption), h("tbody", null, rows));
}

/** Mark the segments of a text; positions count code points, as in the service. */
function markedText(text, segments) {
  const points = [...text];
  const strongest = Math.max(1e-9, ...segments.map((segment) => Math.abs(segment[2])));
  const pieces = [];
  let position = 0;
  for (const [start, stop, contribution] of segments) {
    if (start > position) pieces.push(points.slice(position, start).join(""));
    const strength = Math.abs(contribution) / strongest;
    const mark = h("mark", { class: contribution < 0 ? "less" : "more", title: formatSigned(contribution) }, points.slice(start, stop).join(""));
    mark.style.setProperty("--strength", `${Math.round(100 * strength)}%`);
    pieces.push(mark);
    position = stop;
  }
  pieces.push(points.slice(position).join(""));
  return pieces;
}
