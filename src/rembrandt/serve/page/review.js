// Review suggestions: accept, reject and add labels, text by text.
import * as api from "./api.js";
import { bar, counted, debounce, formatCount, formatPercent, h, hideError, showError, withArrowKeys } from "./dom.js";
import { OPEN, Queue, SAVED, SKIPPED } from "./queue.js";
import { copy, csv, download, lines, parseFile, textColumn } from "./tables.js";

const SUGGESTED = 10; // labels of a text
const AHEAD = 8; // texts whose suggestions are fetched together
const MATCHES = 6; // labels that are shown while one is searched for
const WORDS = /\p{L}{3}/u; // a label without a word of three letters is an identifier
const KEYS = [["↑ ↓", "choose"], ["Space", "accept"], ["X", "reject"], ["A", "add"], ["Enter", "save"], ["S", "skip"], ["P", "back"]];
const GLYPHS = { [OPEN]: "", [SAVED]: "✓", [SKIPPED]: "–" };

export async function review(root, state) {
  if (state.model.takes !== "texts") {
    root.append(h("section", { class: "card" }, h("h1", null, "Review"), h("p", { class: "hint" }, "This model takes vectors; only texts can be reviewed.")));
    return null;
  }
  const desk = new Desk(root, state);
  desk.draw();
  const store = () => desk.queue.storeAnswers();
  addEventListener("pagehide", store);
  return () => {
    removeEventListener("pagehide", store);
    store();
  };
}

class Desk {
  constructor(root, state) {
    this.root = root;
    this.model = state.model;
    this.keeps = state.corrections; // whether the service keeps corrections
    this.queue = new Queue(state.model.name, showError);
    this.suggestions = new Map(); // by text
    this.said = h("p", { class: "sr", role: "status" });
    this.saving = null; // the text whose answer is sent, and whether the answer was changed since
    root.addEventListener("keydown", (event) => this.press(event));
  }

  draw() {
    if (!this.queue.items.length) {
      this.root.replaceChildren(this.intake(), this.said);
      return;
    }
    this.sheet = h("section", { class: "card sheet", "aria-labelledby": "review-title" });
    this.verdicts = h("section", { class: "card verdicts", "aria-labelledby": "verdicts-title" });
    this.root.replaceChildren(h("div", { class: "left" }, this.sheet, this.texts()), this.verdicts, this.said);
    this.show(this.queue.current);
  }

  // Where texts come from.
  intake() {
    const input = h("textarea", { id: "texts", rows: 7, spellcheck: "false", placeholder: "One text per line …" });
    const file = h("input", { id: "file", type: "file", class: "sr", accept: ".txt,.csv,.tsv,.jsonl" });
    const drop = h("label", { class: "drop", for: "file" }, h("b", null, "Choose a file"), " or drop it here", h("small", null, ".csv, .tsv, .jsonl, or .txt with one text per line"));
    const table = h("div", { class: "row", hidden: true });
    const use = (texts) => this.add(texts);
    const read = async (chosen) => {
      try {
        hideError();
        this.offer(table, chosen.name, parseFile(chosen.name, await chosen.text()), use);
      } catch (error) {
        showError(error.message);
      }
    };
    file.addEventListener("change", () => file.files.length && read(file.files[0]));
    for (const name of ["dragover", "drop"]) drop.addEventListener(name, (event) => event.preventDefault());
    drop.addEventListener("drop", (event) => event.dataTransfer.files.length && read(event.dataTransfer.files[0]));
    const form = h(
      "form",
      { class: "card intake" },
      h("label", { for: "texts" }, h("h1", null, "Which texts do you want to review?")),
      input,
      file,
      drop,
      table,
      h("div", { class: "row" }, h("p", { class: "quiet grow" }, "Texts and answers stay in this browser", this.keeps ? ", and saved answers go to the service." : "."), this.queue.items.length ? h("button", { class: "plain", type: "button", onclick: () => this.draw() }, "Cancel") : null, h("button", { class: "primary", type: "submit" }, "Start reviewing")),
      h("p", { class: "quiet" }, "Have many texts? ", h("code", null, "rembrandt suggest"), " writes a file of those whose answers teach the model most."),
    );
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      use(lines(input.value).rows.map((row) => row.text));
    });
    return form;
  }

  offer(place, name, table, use) {
    if (!table.rows.length || !table.columns.length) throw new Error(`${name} has no texts.`);
    const guess = textColumn(table);
    const select = h("select", { "aria-label": "Column of the texts" }, table.columns.map((column) => h("option", { value: column, selected: column === guess }, column)));
    const start = h("button", { class: "primary", type: "button", onclick: () => use(table.rows.map((row) => row[select.value] ?? "")) }, `Review ${counted(table.rows.length, "text")}`);
    place.replaceChildren(h("span", { class: "grow" }, h("b", null, name)), h("label", { class: "quiet" }, "texts are in ", select), start);
    place.hidden = false;
    start.focus();
  }

  add(texts) {
    const added = this.queue.add(texts);
    if (!added) {
      showError("There is no text that is not in the list already.");
      return;
    }
    this.draw();
    const wanted = new Set(texts.filter((text) => text.trim())).size;
    if (added < wanted) showError(`${counted(added, "text")} of ${formatCount(wanted)} were added: the others are in the list already, or the browser cannot keep them.`);
  }

  // The list of texts.
  texts() {
    this.entries = this.queue.items.map((item, i) =>
      h("button", { type: "button", onclick: () => this.show(i, true) }, h("span", { class: "glyph", "aria-hidden": "true" }), h("span", { class: "line" }, item.text.slice(0, 200)), h("span", { class: "sr" })),
    );
    const list = withArrowKeys(h("ol", { class: "texts" }, this.entries.map((entry) => h("li", null, entry))), "button");
    const clear = h("button", { type: "button", class: "plain" }, "Clear");
    clear.addEventListener("click", () => {
      if (clear.textContent === "Clear") {
        clear.textContent = "Really clear all?";
        return;
      }
      this.queue.clear();
      this.draw();
    });
    clear.addEventListener("blur", () => { clear.textContent = "Clear"; });
    const more = h("button", { type: "button", class: "plain" }, "Add texts");
    more.addEventListener("click", () => {
      this.root.replaceChildren(this.intake(), this.said);
      this.root.querySelector("#texts").focus();
    });
    return h(
      "section",
      { class: "card list", "aria-labelledby": "texts-title" },
      h("div", { class: "row top" }, h("h2", { id: "texts-title" }, "Texts"), h("span", { class: "grow" }), more, clear),
      list,
      h("div", { class: "row" }, h("span", { class: "quiet grow" }, "Your answers"), h("button", { type: "button", class: "plain", onclick: () => this.saveCsv() }, "Download CSV"), h("button", { type: "button", class: "plain", onclick: () => this.saveCorrections() }, "Download JSONL")),
      this.keeps ? null : h("p", { class: "quiet note" }, "This service keeps no corrections: start it with ", h("code", null, "--corrections FILE"), ", or download them."),
    );
  }

  mark(position) {
    const item = this.queue.items[position];
    const entry = this.entries[position];
    entry.querySelector(".glyph").textContent = GLYPHS[item.status];
    entry.querySelector(".sr").textContent = item.status === OPEN ? "" : `, ${item.status}`;
    entry.className = item.status;
    if (position === this.queue.current) entry.setAttribute("aria-current", "true");
    else entry.removeAttribute("aria-current");
  }

  // One text.
  async show(position, focus = false) {
    this.queue.current = position;
    this.queue.changed();
    this.entries.forEach((_, i) => this.mark(i));
    const list = this.entries[position].closest("ol");
    const entry = this.entries[position].parentElement;
    if (entry.offsetTop < list.scrollTop || entry.offsetTop + entry.offsetHeight > list.scrollTop + list.clientHeight) list.scrollTop = entry.offsetTop - list.clientHeight / 3;
    this.drawSheet();
    const { item } = this.queue;
    if (!this.suggestions.has(item.text)) {
      this.verdicts.setAttribute("aria-busy", "true");
      this.verdicts.replaceChildren(h("h2", { id: "verdicts-title" }, "Labels"), h("p", { class: "hint" }, "Waiting for the model …"));
    }
    try {
      await this.fetch(position);
      hideError();
    } catch (error) {
      showError(error.message);
      return;
    } finally {
      this.verdicts.removeAttribute("aria-busy");
    }
    if (this.queue.item !== item) return; // another text was chosen in the meantime
    this.drawVerdicts();
    if (focus || matchMedia("(pointer: fine)").matches) this.verdicts.querySelector(".label")?.focus({ preventScroll: true });
  }

  async fetch(position) {
    const { items } = this.queue;
    if (this.suggestions.has(items[position].text)) return;
    const texts = items.slice(position, position + AHEAD).map((item) => item.text).filter((text) => !this.suggestions.has(text));
    const answer = await api.predict({ texts, top_k: SUGGESTED });
    texts.forEach((text, i) => this.suggestions.set(text, answer.predictions[i]));
  }

  drawSheet() {
    const { item, items, current, nReviewed } = this.queue;
    const save = h("button", { type: "button", class: "primary", onclick: () => this.save() }, "Save and next");
    const next = this.queue.next();
    const done = nReviewed === items.length;
    this.sheet.replaceChildren(
      h("div", { class: "row top" }, h("h1", { id: "review-title" }, done ? "All texts are reviewed" : "Which labels are right?"), h("span", { class: "grow" }), h("span", { class: "quiet number" }, `${formatCount(nReviewed)} of ${formatCount(items.length)} reviewed`)),
      bar(nReviewed / items.length),
      h("p", { class: "reading", tabindex: "0", role: "region", "aria-label": `Text ${current + 1}` }, item.text),
      h(
        "div",
        { class: "row" },
        h("button", { type: "button", class: "plain", disabled: current === 0, onclick: () => this.show(current - 1, true) }, "Back"),
        h("button", { type: "button", class: "plain", disabled: next === null, onclick: () => this.skip() }, "Skip"),
        h("button", { type: "button", class: "plain", onclick: () => this.copyLabels() }, "Copy labels"),
        h("span", { class: "grow" }),
        save,
      ),
      h("p", { class: "keys", "aria-label": "Keys" }, KEYS.map(([key, what]) => h("span", null, h("kbd", null, key), ` ${what}`))),
    );
  }

  // The labels of a text.
  labels() {
    const { item } = this.queue;
    const suggested = this.suggestions.get(item.text) ?? [];
    const known = new Set(suggested.map((prediction) => prediction.label));
    const others = Object.keys(item.marks).filter((label) => !known.has(label));
    const added = others.map((label) => ({ label, name: item.names[label] ?? label, added: true, assigned: false }));
    return [...suggested, ...added];
  }

  /** true if a label is accepted, false if it is rejected, undefined if nothing was said. */
  verdict(prediction) {
    const { item } = this.queue;
    const mark = item.marks[prediction.label];
    if (mark === undefined && prediction.assigned && item.status !== SAVED) return true;
    return mark;
  }

  drawVerdicts(focused = null) {
    const labels = this.labels();
    const group = (title, members, className) =>
      members.length ? [h("h3", { class: className }, title), h("ul", { class: "ranking" }, members.map((prediction) => this.row(prediction)))] : [];
    const assigned = labels.filter((prediction) => prediction.assigned);
    const added = labels.filter((prediction) => prediction.added);
    const others = labels.filter((prediction) => !prediction.assigned && !prediction.added);
    const parts = [
      h("h2", { id: "verdicts-title" }, "Labels"),
      h("p", { class: "facts" }, this.model.one_label ? "Check the label that is right, or mark a wrong one with ×." : "Check the labels that are right, and mark wrong ones with ×."),
      ...group("Added by you", added, ""),
      ...group("Assigned by the model", assigned, ""),
      labels.length ? null : h("p", { class: "hint" }, "The model knows no word of this text. Add its labels."),
      ...group(assigned.length ? "Below the threshold" : "No label reaches the threshold", others, "threshold"),
      this.search(),
      this.hint(labels),
    ];
    this.verdicts.replaceChildren(...parts.filter((part) => part !== null));
    if (focused !== null) [...this.verdicts.querySelectorAll(".label")].find((button) => button.value === focused)?.focus();
  }

  row(prediction) {
    const { label, name } = prediction;
    const verdict = this.verdict(prediction);
    const className = verdict === undefined ? "verdict" : verdict ? "verdict accepted" : "verdict rejected";
    return h(
      "li",
      { class: className },
      h(
        "button",
        { type: "button", class: "label", value: label, "aria-pressed": String(verdict === true), title: label === name ? null : label, onclick: () => this.accept(prediction) },
        h("span", { class: "box", "aria-hidden": "true" }),
        h("span", { class: "name" }, name, verdict === false ? h("span", { class: "sr" }, ", rejected") : null),
        h("span", { class: "value" }, prediction.added ? "" : formatPercent(prediction.probability)),
        prediction.added ? null : bar(prediction.probability),
      ),
      h("button", { type: "button", class: "reject", "aria-label": `Reject ${name}`, "aria-pressed": String(verdict === false), onclick: () => this.reject(prediction) }, "×"),
    );
  }

  /** Accept a label, or take that back: without it, a label that the model assigns is rejected. */
  accept(prediction) {
    if (this.verdict(prediction) !== true) this.set(prediction, true);
    else if (prediction.assigned) this.set(prediction, false);
    else this.set(prediction, undefined);
  }

  reject(prediction) {
    if (prediction.added || this.verdict(prediction) === false) this.set(prediction, undefined);
    else this.set(prediction, false);
  }

  set(prediction, mark) {
    const { item } = this.queue;
    if (mark === true && this.model.one_label)
      for (const other of this.labels())
        if (this.verdict(other) === true) {
          if (other.assigned) item.marks[other.label] = false;
          else delete item.marks[other.label];
        }
    if (mark === undefined) delete item.marks[prediction.label];
    else item.marks[prediction.label] = mark;
    item.names[prediction.label] = prediction.name;
    if (item.status === SAVED) this.freeze(item);
    if (this.saving?.item === item) this.saving.changed = true;
    item.status = OPEN;
    this.queue.changed();
    this.mark(this.queue.current);
    this.drawVerdicts(prediction.label);
  }

  /** The answer that was saved is the start of another one: what it left out stays left out. */
  freeze(item) {
    for (const prediction of this.labels())
      if (prediction.assigned && item.marks[prediction.label] === undefined) item.marks[prediction.label] = false;
  }

  search() {
    const input = h("input", { id: "add", type: "search", autocomplete: "off", spellcheck: "false", placeholder: "Add a label …" });
    const list = withArrowKeys(h("ul", { class: "found" }), "button");
    let request = null;
    let takesFirst = false; // Enter was pressed, perhaps before the labels have arrived
    const { item } = this.queue;
    const isShown = () => input.isConnected && this.queue.item === item; // later answers would add to another text
    const find = async () => {
      later.cancel();
      request?.abort();
      if (!isShown()) return;
      const text = input.value.trim();
      if (!text) {
        list.replaceChildren();
        return;
      }
      const controller = (request = new AbortController());
      try {
        const { labels } = await api.labels(text, MATCHES, controller.signal);
        if (!isShown()) return;
        const isKnown = labels.some((match) => [match.label, match.name].some((known) => known.toLowerCase() === text.toLowerCase()));
        const entries = labels.map((match) => this.option(match, h("span", { class: "name" }, match.name, match.label === match.name ? null : h("small", { class: "id" }, match.label)), formatCount(match.count)));
        if (!isKnown) entries.push(this.option({ label: text, name: text }, h("span", { class: "name" }, `“${text}”`), "new label"));
        list.replaceChildren(...entries);
        if (takesFirst && !this.saving) entries[0].querySelector("button").click();
      } catch (error) {
        if (error.name !== "AbortError") showError(error.message);
      }
    };
    const later = debounce(find, 120);
    input.addEventListener("input", () => {
      takesFirst = false;
      later();
    });
    input.addEventListener("keydown", (event) => {
      if (event.key === "ArrowDown") {
        event.preventDefault();
        list.querySelector("button")?.focus();
      } else if (event.key === "Enter") {
        event.preventDefault();
        takesFirst = true;
        find();
      } else if (event.key === "Escape") {
        input.value = "";
        takesFirst = false;
        find();
        this.verdicts.querySelector(".label")?.focus();
      }
    });
    return h("div", { class: "adding" }, h("label", { class: "sr", for: "add" }, "Add a label"), input, list);
  }

  option(match, name, note) {
    const choose = () => {
      const suggested = this.labels().find((prediction) => prediction.label === match.label);
      this.set(suggested ?? { ...match, added: true, assigned: false }, true);
    };
    return h("li", null, h("button", { type: "button", onclick: choose }, name, h("span", { class: "quiet number" }, note)));
  }

  /** How labels get names, where people would read identifiers. */
  hint(labels) {
    if (this.model.n_named || !labels.length || labels.some((prediction) => WORDS.test(prediction.name))) return null;
    return h("p", { class: "quiet note" }, "These labels have no names. Set them with ", h("code", null, "rembrandt labels MODEL --set-names FILE"), ".");
  }

  // Answers.
  answerOf(item, verdictOf) {
    const accepted = [];
    const rejected = [];
    for (const [label, verdict] of verdictOf) (verdict ? accepted : rejected).push(label);
    return { text: item.text, labels: accepted, rejected };
  }

  async save() {
    const { item } = this.queue;
    if (!this.suggestions.has(item.text) || this.saving) return;
    const verdicts = this.labels().map((prediction) => [prediction, this.verdict(prediction)]).filter(([, verdict]) => verdict !== undefined);
    const answer = this.answerOf(item, verdicts.map(([prediction, verdict]) => [prediction.label, verdict]));
    const saving = (this.saving = { item, changed: false });
    try {
      if (this.keeps) await api.correct([answer]);
      hideError();
    } catch (error) {
      showError(`Not saved: ${error.message}`);
      return;
    } finally {
      this.saving = null;
    }
    const position = this.queue.items.indexOf(item);
    if (position < 0) return; // all texts were cleared in the meantime
    if (saving.changed) { // the service has the answer as it was before
      showError(`The answer to text ${position + 1} was changed while it was being saved. Save it again.`);
      return;
    }
    for (const [prediction, verdict] of verdicts) {
      item.marks[prediction.label] = verdict;
      item.names[prediction.label] = prediction.name;
    }
    item.status = SAVED;
    this.queue.storeAnswers();
    this.said.textContent = `Saved. ${this.queue.nReviewed} of ${counted(this.queue.items.length, "text")} reviewed.`;
    if (this.queue.item === item) {
      this.show(this.queue.next() ?? position, true);
      return;
    }
    // Another text was chosen in the meantime, and stays where it is.
    this.mark(position);
    this.drawSheet();
  }

  skip() {
    const { item } = this.queue;
    const next = this.queue.next();
    if (next === null) return;
    if (item.status === OPEN && this.saving?.item !== item) item.status = SKIPPED;
    this.show(next, true);
  }

  async copyLabels() {
    const names = this.labels().filter((prediction) => this.verdict(prediction) === true).map((prediction) => prediction.name);
    await copy(names.join("\n"));
    this.said.textContent = `${counted(names.length, "label")} copied.`;
  }

  saveCsv() {
    const named = (item, wanted) => Object.keys(item.marks).filter((label) => item.marks[label] === wanted).map((label) => item.names[label] ?? label).join("|");
    const rows = this.queue.reviewed.map((item) => [item.text, named(item, true), named(item, false)]);
    download("reviewed.csv", "text/csv", csv([["text", "labels", "rejected"], ...rows]));
  }

  saveCorrections() {
    const answers = this.queue.reviewed.map((item) => JSON.stringify(this.answerOf(item, Object.entries(item.marks))));
    // The service writes a space after each colon and comma, and commands recognise the file by that.
    const rows = answers.map((answer) => `{"text": ${answer.slice('{"text":'.length)}\n`);
    download("corrections.jsonl", "application/jsonl", rows.join(""));
  }

  press(event) {
    if (event.ctrlKey || event.metaKey || event.altKey || !this.queue.items.length) return;
    if (event.target.closest("input, textarea, select")) return;
    const buttons = [...this.verdicts.querySelectorAll(".verdict .label")];
    const focused = event.target.closest(".verdict")?.querySelector(".label");
    const position = buttons.indexOf(focused);
    const chosen = this.labels().find((prediction) => prediction.label === focused?.value);
    const actions = {
      ArrowDown: () => position >= 0 && buttons[position + 1]?.focus(),
      ArrowUp: () => position >= 0 && buttons[position - 1]?.focus(),
      x: () => chosen && this.reject(chosen),
      Delete: () => chosen && this.reject(chosen),
      a: () => this.verdicts.querySelector("#add")?.focus(),
      s: () => this.skip(),
      p: () => this.queue.current > 0 && this.show(this.queue.current - 1, true),
    };
    if (event.target.classList.contains("label") && position >= 0) actions.Enter = () => this.save();
    const key = event.key.length === 1 ? event.key.toLowerCase() : event.key;
    if (/^[1-9]$/.test(key)) actions[key] = () => buttons[Number(key) - 1]?.click();
    if (!actions[key] || (event.target.closest(".texts") && key.startsWith("Arrow"))) return;
    event.preventDefault();
    actions[key]();
  }
}
