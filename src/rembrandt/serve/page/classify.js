// Type or paste a text; see its labels, and the words that explain each.
import * as api from "./api.js";
import { arrows, bar, calm, complain, debounce, h, labelLink, percent, signed, whole } from "./dom.js";

const PAUSE = 350; // milliseconds without a key until the labels are asked for

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
  const results = h("section", { class: "card results", "aria-labelledby": "labels-title", "aria-live": "polite" });
  const why = h("section", { class: "card why", "aria-labelledby": "why-title" });
  input.value = state.text;
  top.value = String(state.top);

  const button = h("button", { class: "primary", type: "submit" }, "Find labels");
  const form = h(
    "form",
    { class: "card composer" },
    h("label", { for: "text" }, h("h1", null, texts ? "What is this text about?" : "What is this example?")),
    input,
    h("div", { class: "row" }, size, h("span", { class: "grow" }), h("label", { class: "quiet", for: "top" }, "labels"), top, button),
  );
  root.append(h("div", { class: "left" }, form, why), results);

  let asked = null;
  let question = null; // what was asked last: asking the same again would only undo what the person chose since
  async function ask() {
    const text = input.value;
    if (question === `${state.top} ${text}`) return;
    question = `${state.top} ${text}`;
    asked?.abort();
    state.text = text;
    size.textContent = texts ? `${whole([...text].length)} characters` : "";
    if (!text.trim()) {
      state.answer = null;
      empty();
      return;
    }
    const controller = (asked = new AbortController());
    results.setAttribute("aria-busy", "true");
    try {
      const body = texts ? { texts: [text] } : { vectors: [vector(text)] };
      const answer = await api.predict({ ...body, top_k: state.top, explain: true, probabilities: true }, controller.signal);
      calm();
      state.answer = { text, labels: answer.predictions[0] };
      draw(0);
    } catch (error) {
      if (error.name === "AbortError") return;
      question = null;
      complain(error.message);
    } finally {
      if (asked === controller) results.removeAttribute("aria-busy");
    }
  }

  function empty() {
    results.replaceChildren(
      h("h2", { id: "labels-title" }, "Labels"),
      h("p", { class: "hint" }, `The best of ${whole(state.model.n_labels)} labels appear here as you type, and the words that speak for each.`),
    );
    why.hidden = true;
  }

  function draw(index) {
    const { labels } = state.answer;
    const most = Math.max(1e-9, ...labels.map((one) => one.score));
    const rows = labels.map((one, i) =>
      h(
        "li",
        null,
        h(
          "button",
          { type: "button", class: "label", "aria-pressed": String(i === index), onclick: () => select(i), onfocus: () => select(i) },
          h("span", { class: "name" }, one.name),
          h("span", { class: "score" }, percent(one.score)),
          bar(one.score / Math.max(1, most)),
        ),
      ),
    );
    const list = arrows(h("ol", { class: "ranking" }, rows), "button");
    const nothing = labels.length ? null : h("p", { class: "hint" }, "No label fits.");
    results.replaceChildren(h("h2", { id: "labels-title" }, "Labels"), list, nothing ?? "");
    select(index);
  }

  function select(index) {
    const { labels, text } = state.answer;
    results.querySelectorAll("button.label").forEach((button, i) => button.setAttribute("aria-pressed", String(i === index)));
    why.hidden = !labels.length;
    if (labels.length) why.replaceChildren(...explained(labels[index], texts ? text : null));
  }

  input.addEventListener("input", debounce(ask, PAUSE));
  input.addEventListener("keydown", (event) => {
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) ask();
  });
  top.addEventListener("change", () => {
    state.top = Number(top.value);
    ask();
  });
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    ask();
  });
  if (state.answer) {
    size.textContent = texts ? `${whole([...state.text].length)} characters` : "";
    draw(0);
  } else if (state.text) ask();
  else empty();
  if (matchMedia("(pointer: fine)").matches) input.focus({ preventScroll: true });
  return () => asked?.abort();
}

function vector(text) {
  try {
    return JSON.parse(text);
  } catch {
    throw new Error('This is not a vector yet: write it as {"feature": value, …}.');
  }
}

function explained(one, text) {
  const { words, segments, base, rest, score } = one.explanation;
  const strongest = Math.max(1e-9, ...words.map((word) => Math.abs(word.contribution)));
  const rows = words.slice(0, 8).map((word) =>
    h("tr", null, h("th", { scope: "row" }, word.word), h("td", null, bar(word.contribution / strongest, true)), h("td", { class: "number" }, signed(word.contribution))),
  );
  const others = words.slice(8).reduce((sum, word) => sum + word.contribution, rest);
  return [
    h("h2", { id: "why-title" }, "Why ", h("a", { href: labelLink(one.label) }, one.name)),
    text === null ? "" : h("p", { class: "reading" }, highlighted(text, segments)),
    h("table", { class: "words" }, h("caption", { class: "sr" }, "What each word adds to the score"), h("tbody", null, rows)),
    h(
      "p",
      { class: "quiet sum" },
      `An empty text scores ${base.toFixed(3)}; the words above and ${signed(others)} of all others make ${score.toFixed(3)}.`,
    ),
  ];
}

/** The text with marks; places count code points, as the service does. */
function highlighted(text, segments) {
  const points = [...text];
  const most = Math.max(1e-9, ...segments.map((segment) => Math.abs(segment[2])));
  const pieces = [];
  let at = 0;
  for (const [start, stop, contribution] of segments) {
    if (start > at) pieces.push(points.slice(at, start).join(""));
    const strength = Math.abs(contribution) / most;
    const mark = h("mark", { class: contribution < 0 ? "less" : "more", title: signed(contribution) }, points.slice(start, stop).join(""));
    mark.style.setProperty("--strength", `${Math.round(100 * strength)}%`);
    pieces.push(mark);
    at = stop;
  }
  pieces.push(points.slice(at).join(""));
  return pieces;
}
