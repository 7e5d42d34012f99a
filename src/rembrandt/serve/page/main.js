// The frame of the page: model, view and theme.
import * as api from "./api.js";
import { hideError, showError, h } from "./dom.js";
import { classify } from "./classify.js";
import { labels } from "./labels.js";
import { map } from "./map.js";
import { model } from "./model.js";

const review = async (...context) => (await import("./review.js")).review(...context); // loaded when it is shown
const views = { classify, review, labels, map, model };
const main = document.getElementById("main");
const picker = document.getElementById("model");
const state = { models: [], model: null, corrections: false, text: "", top: 10, answer: null };
let leave = null;

async function show() {
  const [, name, ...path] = location.hash.split("/");
  const view = views[name] ? name : "classify";
  for (const link of document.querySelectorAll("nav a")) {
    if (link.hash === `#/${view}`) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  document.title = `${view[0].toUpperCase()}${view.slice(1)} · Rembrandt`;
  leave?.();
  leave = null;
  hideError();
  const root = h("div", { class: `view ${view}` });
  main.replaceChildren(root);
  try {
    leave = (await views[view](root, state, path.map(decodeURIComponent).join("/"))) ?? null;
  } catch (error) {
    showError(error.message);
  }
}

function pick(name) {
  state.model = state.models.find((served) => served.name === name);
  state.answer = null;
  api.selectModel(name);
}

async function start() {
  document.getElementById("theme").addEventListener("click", () => window.switchTheme());
  document.querySelector("#alert button").addEventListener("click", hideError);
  try {
    const service = await api.models();
    state.models = service.models;
    state.corrections = service.corrections;
  } catch (error) {
    showError(error.message);
    return;
  }
  picker.replaceChildren(...state.models.map((served) => h("option", { value: served.name }, served.name)));
  picker.closest("label").hidden = state.models.length < 2;
  pick(state.models.find((served) => served.default).name);
  picker.value = state.model.name;
  picker.addEventListener("change", () => {
    pick(picker.value);
    show();
  });
  addEventListener("hashchange", show);
  await show();
}

start();
