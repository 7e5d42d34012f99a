// Build elements from data. Text is inserted as text only, so that label names are never parsed as HTML.
import { percent } from "./percent.js";

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

/** A bar whose length is a fraction from 0 to 1; if `signed`, from the middle to either side. */
export function bar(fraction, signed = false) {
  const inner = h("i");
  const size = 100 * Math.min(1, Math.abs(fraction));
  if (signed) {
    inner.style.width = `${size / 2}%`;
    inner.style.left = fraction < 0 ? `${50 - size / 2}%` : "50%";
    if (fraction < 0) inner.className = "less";
  } else {
    inner.style.width = `${Math.max(0, fraction) * 100}%`;
  }
  return h("span", { class: signed ? "meter signed" : "meter", "aria-hidden": "true" }, inner);
}

export const formatCount = (number) => number.toLocaleString("en");
/** A number with its noun in the singular or plural. */
export const counted = (number, noun) => `${formatCount(number)} ${number === 1 ? noun : `${noun}s`}`;
/** A probability in per cent, with a decimal where it is small. */
export const formatPercent = (fraction) => percent(fraction, fraction < 0.0995 ? 1 : 0);
export const formatSigned = (value) => `${value < 0 ? "−" : "+"}${Math.abs(value).toFixed(3)}`;
/** The name of a label, and its identifier if that is another text. */
export const nameOf = ({ label, name }) => h("span", { class: "name" }, name, label === name ? null : h("small", { class: "id" }, label));
export const labelLink = (label) => `#/labels/${encodeURIComponent(label)}`;

/** Let the arrow keys move between the buttons or links of a list. */
export function withArrowKeys(list, selector) {
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

/** Do work once calls have paused; `cancel` drops what is waiting. */
export function debounce(work, pause) {
  let timer;
  const later = () => {
    clearTimeout(timer);
    timer = setTimeout(work, pause);
  };
  later.cancel = () => clearTimeout(timer);
  return later;
}

export function showError(message) {
  const box = document.getElementById("alert");
  const text = message[0].toUpperCase() + message.slice(1);
  box.querySelector("p").textContent = /[.?!]$/.test(text) ? text : `${text}.`;
  box.hidden = false;
}

export function hideError() {
  document.getElementById("alert").hidden = true;
}
