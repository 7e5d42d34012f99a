// Elements out of data. Text is only ever set as text, so that a label's name cannot become mark-up.
const SVG = "http://www.w3.org/2000/svg";

function fill(node, props, children) {
  for (const [name, value] of Object.entries(props ?? {})) {
    if (value === undefined || value === null || value === false) continue;
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else node.setAttribute(name, value === true ? "" : value);
  }
  node.append(...children.flat().filter((child) => child !== null && child !== undefined));
  return node;
}

export const h = (tag, props, ...children) => fill(document.createElement(tag), props, children);
export const svg = (tag, props, ...children) => fill(document.createElementNS(SVG, tag), props, children);

/** A bar whose length is a share from 0 to 1; from the middle to either side where `signed`. */
export function bar(share, signed = false) {
  const inner = h("i");
  const size = 100 * Math.min(1, Math.abs(share));
  if (signed) {
    inner.style.width = `${size / 2}%`;
    inner.style.left = share < 0 ? `${50 - size / 2}%` : "50%";
    if (share < 0) inner.className = "less";
  } else {
    inner.style.width = `${Math.max(0, share) * 100}%`;
  }
  return h("span", { class: signed ? "meter signed" : "meter", "aria-hidden": "true" }, inner);
}

export const whole = (number) => number.toLocaleString("en");
export const percent = (share) => (share >= 0.0995 ? `${Math.round(100 * share)}%` : `${(100 * share).toFixed(1)}%`);
export const signed = (value) => `${value < 0 ? "−" : "+"}${Math.abs(value).toFixed(3)}`;
export const labelLink = (label) => `#/labels/${encodeURIComponent(label)}`;

/** Up and down move between the buttons or links of a list. */
export function arrows(list, selector) {
  list.addEventListener("keydown", (event) => {
    if (event.key !== "ArrowDown" && event.key !== "ArrowUp") return;
    const all = [...list.querySelectorAll(selector)];
    const next = all[all.indexOf(document.activeElement) + (event.key === "ArrowDown" ? 1 : -1)];
    if (!next) return;
    event.preventDefault();
    next.focus();
  });
  return list;
}

export function debounce(work, pause) {
  let timer;
  return () => {
    clearTimeout(timer);
    timer = setTimeout(work, pause);
  };
}

export function complain(sentence) {
  const box = document.getElementById("alert");
  const said = sentence[0].toUpperCase() + sentence.slice(1);
  box.querySelector("p").textContent = /[.?!]$/.test(said) ? said : `${said}.`;
  box.hidden = false;
}

export function calm() {
  document.getElementById("alert").hidden = true;
}
