// The choice of light or dark, applied before the page is drawn. Without it the system decides.
"use strict";
(() => {
  const CHOICES = ["auto", "light", "dark"];
  const read = () => {
    try { return localStorage.getItem("theme") || "auto"; } catch { return "auto"; }
  };
  const apply = (choice) => {
    if (choice === "auto") delete document.documentElement.dataset.theme;
    else document.documentElement.dataset.theme = choice;
  };
  apply(read());
  document.addEventListener("DOMContentLoaded", () => {
    const button = document.querySelector("[data-switch=theme]");
    if (!button) return;
    button.parentElement.hidden = false;
    const show = () => { button.textContent = `Theme: ${read()}`; };
    show();
    button.addEventListener("click", () => {
      const next = CHOICES[(CHOICES.indexOf(read()) + 1) % CHOICES.length];
      try { localStorage.setItem("theme", next); } catch { /* it holds for this page only */ }
      apply(next);
      show();
    });
  });
})();
