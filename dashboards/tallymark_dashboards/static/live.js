// Says how old the page is: a page that no longer hears from the server must look it.
"use strict";
(() => {
  const asOf = document.getElementById("as-of");
  const stale = document.getElementById("stale");
  let heard = Date.now();
  let connected = true;
  const hear = () => { heard = Date.now(); };
  document.body.addEventListener("htmx:sseMessage", hear);
  document.body.addEventListener("htmx:sseOpen", () => { connected = true; hear(); });
  document.body.addEventListener("htmx:sseError", () => { connected = false; });
  document.body.addEventListener("htmx:afterSwap", () => {
    const now = new Date().toISOString().replace(/\.\d+Z$/, "Z");
    asOf.textContent = now;
    asOf.dateTime = now;
  });
  setInterval(() => {
    document.body.classList.toggle("stale", !connected);
    const text = connected ? "" : ` · no connection for ${Math.round((Date.now() - heard) / 1000)} s`;
    if (stale.textContent !== text) stale.textContent = text;
  }, 1000);
})();
