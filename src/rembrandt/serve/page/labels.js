// Search labels; look at one and its neighbours.
import * as api from "./api.js";
import { arrows, bar, calm, complain, debounce, h, labelLink, whole } from "./dom.js";

const SHOWN = 60;
let last = ""; // what was searched for, kept between visits

export async function labels(root, state, wanted) {
  const input = h("input", { id: "query", type: "search", placeholder: "Part of a name …", autocomplete: "off", spellcheck: "false" });
  const list = arrows(h("ul", { class: "found" }), "a");
  const note = h("p", { class: "quiet", role: "status" });
  const page = h("section", { class: "card label-page", "aria-live": "polite" });
  input.value = last;
  root.append(
    h(
      "section",
      { class: "card search", role: "search" },
      h("label", { for: "query" }, h("h1", null, "Find a label")),
      input,
      note,
      list,
    ),
    page,
  );

  let asked = null;
  async function search() {
    asked?.abort();
    const controller = (asked = new AbortController());
    last = input.value;
    try {
      const found = (await api.labels(last, SHOWN, controller.signal)).labels;
      list.replaceChildren(...found.map((one) => entry(one, wanted)));
      if (!last.trim()) note.textContent = `The most frequent of ${whole(state.model.n_labels)} labels`;
      else if (!found.length) note.textContent = "No label contains this.";
      else note.textContent = found.length < SHOWN ? `${found.length} found` : `The first ${SHOWN} found`;
    } catch (error) {
      if (error.name !== "AbortError") complain(error.message);
    }
  }
  input.addEventListener("input", calm);
  input.addEventListener("input", debounce(search, 120));
  input.addEventListener("keydown", (event) => {
    if (event.key !== "ArrowDown") return;
    event.preventDefault();
    list.querySelector("a")?.focus();
  });
  const searched = search();
  if (wanted) await draw(page, wanted);
  else page.replaceChildren(h("p", { class: "hint" }, "Choose a label to see which others lie near it in the embedding."));
  await searched;
  if (!wanted) input.focus({ preventScroll: true });
  return () => asked?.abort();
}

function entry(one, wanted) {
  return h(
    "li",
    null,
    h(
      "a",
      { href: labelLink(one.label), "aria-current": one.label === wanted ? "true" : null },
      h("span", { class: "name" }, one.name),
      h("span", { class: "quiet number" }, whole(one.count)),
    ),
  );
}

async function draw(page, wanted) {
  const { label, name, count, neighbors } = await api.neighbors(wanted);
  page.replaceChildren(
    h("p", { class: "quiet id" }, label),
    h("h2", null, name),
    h("p", { class: "facts" }, `${whole(count)} ${count === 1 ? "example" : "examples"} in training`, " · ", h("a", { href: `#/map/${encodeURIComponent(label)}` }, "show on the map")),
    h("h3", null, "Nearest in the embedding"),
    neighborList(neighbors),
  );
}

export function neighborList(neighbors) {
  if (!neighbors.length) return h("p", { class: "hint" }, "Nothing is near it: it has no direction in the embedding.");
  return arrows(
    h(
      "ol",
      { class: "ranking" },
      neighbors.map((one) =>
        h(
          "li",
          null,
          h(
            "a",
            { class: "label", href: labelLink(one.label) },
            h("span", { class: "name" }, one.name),
            h("span", { class: "score", title: "cosine" }, one.cosine.toFixed(2)),
            bar(one.cosine),
          ),
        ),
      ),
    ),
    "a",
  );
}
