// Calls to the service. Errors are thrown with the message of the service.
let token = null;
try { token = sessionStorage.getItem("token"); } catch { /* storage may be disabled */ }

function askForToken() {
  const dialog = document.getElementById("token-dialog");
  const input = document.getElementById("token");
  return new Promise((resolve) => {
    dialog.addEventListener("close", () => resolve(dialog.returnValue === "ok" ? input.value.trim() : null), { once: true });
    input.value = "";
    if (!dialog.open) dialog.showModal();
  });
}

let tokenRequest = null;

async function call(path, options = {}) {
  for (;;) {
    const headers = { ...options.headers };
    const sent = token;
    if (sent) headers.Authorization = `Bearer ${sent}`;
    let response;
    try {
      response = await fetch(path, { ...options, headers });
    } catch (error) {
      if (error.name === "AbortError") throw error;
      throw new Error("The service does not respond. Is it still running?");
    }
    if (response.status === 401 && sent === token) {
      tokenRequest ??= askForToken().finally(() => { tokenRequest = null; });
      const entered = await tokenRequest;
      if (!entered) throw new Error("This service needs a token.");
      token = entered;
      try { sessionStorage.setItem("token", token); } catch { /* storage may be disabled */ }
      continue;
    }
    if (response.status === 401) continue;
    const content = await response.json().catch(() => ({}));
    if (!response.ok) throw new Error(content.error?.message ?? `The service returned status ${response.status}.`);
    return content;
  }
}

const query = (params) => new URLSearchParams(Object.entries(params).filter(([, value]) => value !== undefined));
let currentModel;

export const selectModel = (model) => { currentModel = model; };
export const models = () => call("/v1/models");
export const details = () => call(`/v1/models/${encodeURIComponent(currentModel)}`);
export const labels = (text, limit, signal) => call(`/v1/labels?${query({ query: text, limit, model: currentModel })}`, { signal });
export const neighbors = (label, k = 12) => call(`/v1/labels/${encodeURIComponent(label)}/neighbors?${query({ k, model: currentModel })}`);
export const map = () => call(`/v1/map?${query({ limit: 20000, model: currentModel })}`);
const post = (path, body, signal) =>
  call(path, { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify({ ...body, model: currentModel }), signal });
export const correct = (corrections) => post("/v1/corrections", { corrections });
export const predict = (body, signal) => post("/v1/predict", body, signal);
