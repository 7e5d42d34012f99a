// Search labels; show one label and its neighbours.
import * as api from "./api.js";
import { withArrowKeys, bar, hideError, showError, debounce, h, labelLink, nameOf, formatCount, counted } from "./dom.js";

const SHOWN = 60;
let last = ""; // the last query, kept while the page is open

export async function labels(root, state, selected) {
  const input = h("input", { id: "query", type: "search", placeholder: "Part of a name …", autocomplete: "off", spellcheck: "false" });
  const list = withArrowKeys(h("ul", { class: "found" }), "a");
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

  let request = null;
  async function search() {
    request?.abort();
    const controller = (request = new AbortController());
    last = input.value;
    try {
      const matches = (await api.labels(last, SHOWN, controller.signal)).labels;
      list.replaceChildren(...matches.map((label) => entry(label, selected)));
      if (!last.trim()) note.textContent = `The most frequent of ${formatCount(state.model.n_labels)} labels`;
      else if (!matches.length) note.textContent = "No label contains this text.";
      else note.textContent = matches.length < SHOWN ? counted(matches.length, "label") : `The first ${SHOWN} labels`;
    } catch (error) {
      if (error.name !== "AbortError") showError(error.message);
    }
  }
  input.addEventListener("input", hideError);
  input.addEventListener("input", debounce(search, 120));
  input.addEventListener("keydown", (event) => {
    if (event.key !== "ArrowDown") return;
    event.preventDefault();
    list.querySelector("a")?.focus();
  });
  const searched = search();
  if (selected) {
    root.classList.add("chosen");
    try {
      await draw(page, selected);
    } catch (error) {
      page.replaceChildren(h("p", { class: "hint" }, "This label cannot be shown. Search for another one."));
      showError(error.message);
    }
  } else page.replaceChildren(h("p", { class: "hint" }, "Choose a label to see the labels nearest to it."));
  await searched;
  if (!selected) input.focus({ preventScroll: true });
  return () => request?.abort();
}

function entry(match, selected) {
  return h(
    "li",
    null,
    h(
      "a",
      { href: labelLink(match.label), title: match.description || null, "aria-current": match.label === selected ? "true" : null },
      nameOf(match),
      h("span", { class: "quiet number" }, formatCount(match.count), h("span", { class: "sr" }, match.count === 1 ? " training example" : " training examples")),
    ),
  );
}

async function draw(page, selected) {
  const details = await api.neighbors(selected);
  page.replaceChildren(...labelDetails(details, " · ", h("a", { href: `#/map/${encodeURIComponent(details.label)}` }, "show on the map")));
}

/** What a label is, how often it was seen, and the labels nearest to it; `links` follow the count. */
export const labelDetails = ({ label, name, description, count, neighbors, parents, children }, ...links) => [
  h("h2", null, name),
  label === name ? "" : h("p", { class: "quiet id" }, label),
  description ? h("p", { class: "about" }, description) : "",
  h("p", { class: "facts" }, counted(count, "training example"), ...links),
  ...nodeList("Above", parents),
  ...nodeList("Below", children),
  h("h3", null, "Nearest labels ", h("span", { class: "quiet" }, "by cosine")),
  neighborList(neighbors),
];

/** What lies above or below a label; nothing where the model has no parents of labels. */
function nodeList(title, nodes) {
  if (!nodes?.length) return [];
  const items = nodes.map((node) => h("li", null, node.is_label ? h("a", { href: labelLink(node.label) }, nameOf(node)) : nameOf(node)));
  return [h("h3", null, title), h("ul", { class: "nodes" }, items)];
}

function neighborList(neighbors) {
  if (!neighbors.length) return h("p", { class: "hint" }, "This label has no neighbours: its vector is zero.");
  return withArrowKeys(
    h(
      "ol",
      { class: "ranking" },
      neighbors.map((neighbor) =>
        h(
          "li",
          null,
          h(
            "a",
            { class: "label", href: labelLink(neighbor.label), title: neighbor.description || null },
            nameOf(neighbor),
            h("span", { class: "value", title: "cosine" }, h("span", { class: "sr" }, "cosine "), neighbor.cosine.toFixed(2)),
            bar(neighbor.cosine),
          ),
        ),
      ),
    ),
    "a",
  );
}
