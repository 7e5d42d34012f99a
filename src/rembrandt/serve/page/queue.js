// The texts to review and what was answered. They survive a reload of the page.
const MAX_TEXTS = 2000;
const MAX_CHARACTERS = 2_000_000; // browsers keep about five million
const PAUSE = 200; // milliseconds after a change before it is stored

export const OPEN = "open";
export const SAVED = "saved";
export const SKIPPED = "skipped";

export class Queue {
  /** `items` have a text, a status, and marks: labels that were accepted (true) or rejected (false). */
  constructor(model, onFailure) {
    this.key = `review ${model}`;
    this.onFailure = onFailure;
    this.items = [];
    this.current = 0;
    this.timer = null;
    this.load();
  }

  load() {
    try {
      const texts = JSON.parse(localStorage.getItem(`${this.key} texts`) ?? "[]");
      const answers = JSON.parse(localStorage.getItem(`${this.key} answers`) ?? "{}");
      this.items = texts.map((text, i) => ({ text, status: OPEN, marks: {}, names: {}, ...answers.items?.[i] }));
      this.current = Math.min(answers.current ?? 0, Math.max(0, texts.length - 1));
    } catch {
      this.items = []; // storage is disabled, or was changed by hand
    }
  }

  get item() { return this.items[this.current]; }
  get nReviewed() { return this.items.filter((item) => item.status === SAVED).length; }
  get reviewed() { return this.items.filter((item) => item.status === SAVED); }

  /** Add texts that are not there yet; return how many were added. */
  add(texts) {
    const known = new Set(this.items.map((item) => item.text));
    let size = this.items.reduce((sum, item) => sum + item.text.length, 0);
    const before = this.items.length;
    for (const text of texts) {
      if (!text.trim() || known.has(text)) continue;
      size += text.length;
      if (this.items.length >= MAX_TEXTS || size > MAX_CHARACTERS) break;
      known.add(text);
      this.items.push({ text, status: OPEN, marks: {}, names: {} });
    }
    const added = this.items.length - before;
    if (added && before && this.item.status === SAVED) this.current = before;
    this.store("texts", this.items.map((item) => item.text));
    this.storeAnswers();
    return added;
  }

  clear() {
    this.items = [];
    this.current = 0;
    this.store("texts", []);
    this.storeAnswers();
  }

  /** The next text without an answer, after the current one and then from the start; skipped ones come last. */
  next() {
    const size = this.items.length;
    const after = Array.from({ length: size - 1 }, (_, step) => (this.current + step + 1) % size);
    const withStatus = (status) => after.find((position) => this.items[position].status === status);
    return withStatus(OPEN) ?? withStatus(SKIPPED) ?? null;
  }

  changed() {
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.storeAnswers(), PAUSE);
  }

  storeAnswers() {
    clearTimeout(this.timer);
    const items = this.items.map(({ status, marks, names }) => ({ status, marks, names }));
    this.store("answers", { current: this.current, items });
  }

  store(what, value) {
    try {
      localStorage.setItem(`${this.key} ${what}`, JSON.stringify(value));
    } catch {
      this.onFailure("The browser cannot keep these texts; download your answers before you close this page.");
    }
  }
}
