// Set the theme before the page is drawn: the one chosen last, or that of the system.
(() => {
  const system = matchMedia("(prefers-color-scheme: dark)");
  const stored = () => { try { return localStorage.getItem("theme"); } catch { return null; } };
  const apply = () => { document.documentElement.dataset.theme = stored() ?? (system.matches ? "dark" : "light"); };
  apply();
  system.addEventListener("change", apply);
  window.switchTheme = () => {
    const next = document.documentElement.dataset.theme === "dark" ? "light" : "dark";
    try { localStorage.setItem("theme", next); } catch { /* storage may be disabled */ }
    document.documentElement.dataset.theme = next;
    window.dispatchEvent(new Event("theme"));
  };
})();
