// Calls to the service that this page came from. What it refuses is thrown as its own sentence.
let token = null;
try { token = sessionStorage.getItem("token"); } catch { /* private windows keep nothing */ }

function askForToken() {
  const dialog = document.getElementById("ask");
  const input = document.getElementById("token");
  return new Promise((resolve) => {
    dialog.addEventListener("close", () => resolve(dialog.returnValue === "ok" ? input.value.trim() : null), { once: true });
    input.value = "";
    if (!dialog.open) dialog.showModal();
  });
}

let asking = null;

async function call(path, options = {}) {
  for (;;) {
    const headers = { ...options.headers };
    const used = token;
    if (used) headers.Authorization = `Bearer ${used}`;
    let response;
    try {
      response = await fetch(path, { ...options, headers });
    } catch (error) {
      if (error.name === "AbortError") throw error;
      throw new Error("The service does not answer. Is it still running?");
    }
    if (response.status === 401 && used === token) {
      asking ??= askForToken().finally(() => { asking = null; });
      const given = await asking;
      if (!given) throw new Error("Without a token this service answers nothing.");
      token = given;
      try { sessionStorage.setItem("token", token); } catch { /* private windows keep nothing */ }
      continue;
    }
    if (response.status === 401) continue;
    const answer = await response.json().catch(() => ({}));
    if (!response.ok) throw new Error(answer.error?.message ?? `The service answered ${response.status}.`);
    return answer;
  }
}

const query = (params) => new URLSearchParams(Object.entries(params).filter(([, value]) => value !== undefined));
let chosen;

export const choose = (model) => { chosen = model; };
export const models = () => call("/v1/models");
export const details = () => call(`/v1/models/${encodeURIComponent(chosen)}`);
export const labels = (text, limit, signal) => call(`/v1/labels?${query({ query: text, limit, model: chosen })}`, { signal });
export const neighbors = (label, k = 12) => call(`/v1/labels/${encodeURIComponent(label)}/neighbors?${query({ k, model: chosen })}`);
export const map = () => call(`/v1/map?${query({ limit: 20000, model: chosen })}`);
export const predict = (body, signal) =>
  call("/v1/predict", {
    method: "POST",
    headers: { "Content-Type": "application/json" },
    body: JSON.stringify({ ...body, model: chosen }),
    signal,
  });
