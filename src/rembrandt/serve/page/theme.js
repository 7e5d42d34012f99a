// Before anything is drawn: the theme that was chosen here last, or else the system's.
(() => {
  const asked = matchMedia("(prefers-color-scheme: dark)");
  const kept = () => { try { return localStorage.getItem("theme"); } catch { return null; } };
  const show = () => { document.documentElement.dataset.theme = kept() ?? (asked.matches ? "dark" : "light"); };
  show();
  asked.addEventListener("change", show);
  window.switchTheme = () => {
    const next = document.documentElement.dataset.theme === "dark" ? "light" : "dark";
    try { localStorage.setItem("theme", next); } catch { /* private windows keep nothing */ }
    document.documentElement.dataset.theme = next;
    window.dispatchEvent(new Event("theme"));
  };
})();
