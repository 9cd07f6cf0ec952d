// Keeps a page current: one event stream, of which the newest fragment is morphed into #content, so
// that focus, selection, scroll, open details and what is typed survive. A page that does not hear
// from the server says so, in its head and in its tab. See tallymark_dashboards/live.
"use strict";
(() => {
  const box = document.getElementById("live");
  const content = document.getElementById("content");
  if (!box || !box.dataset.source || !content || !window.EventSource) return;
  const state = document.getElementById("live-state");
  const stale = document.getElementById("stale");
  const why = document.getElementById("live-why");
  const news = document.getElementById("live-news");
  const pause = document.getElementById("live-pause");
  const icon = document.getElementById("icon");
  const LOST_MS = 5000; // a server that is restarted answers again by then
  const SILENT_MS = 25000; // two beats and some more: the connection is dead, whatever it says
  const OLD_MS = 45000; // the server itself has not looked for so long
  // A browser has six connections to a host. With a stream for each tab, the seventh tab never
  // loaded: a hidden tab asks now and then, and closes its stream (a browser may wait for a minute
  // before it wakes a hidden tab).
  const HIDDEN_MS = 20000;
  const HIDDEN_SILENT_MS = 150000;
  const WAKING_MS = 10000;
  const RETRY_MS = [2000, 5000, 15000, 30000];

  const page = {
    digest: content.dataset.digest,
    title: box.dataset.title,
    tone: box.dataset.tone,
    count: Number(box.dataset.count),
  };
  let source = null;
  let paused = false;
  let held = false; // a pointer is down: nothing moves below it
  let pending = null;
  let current = performance.now(); // when what is shown was last known to be so
  let heard = current;
  let since = current; // when it was last tried to connect
  let lost = 0; // when the connection broke; 0 while there is one
  let reason = "";
  let tries = 0;
  let woken = -WAKING_MS; // when the tab was last looked at again
  let retry = 0;
  let shownState = "";

  // --- the stream -------------------------------------------------------------------------------
  const connect = () => {
    disconnect();
    since = performance.now();
    const here = location.pathname.slice(box.dataset.prefix.length) + location.search;
    const asked = new URLSearchParams({ page: here, have: page.digest });
    source = new EventSource(`${box.dataset.source}?${asked}`);
    source.addEventListener("page", (event) => {
      hear(0);
      pending = JSON.parse(event.data);
      apply();
    });
    for (const any of ["page", "beat", "stale"]) source.addEventListener(any, rest);
    source.addEventListener("beat", (event) => hear(JSON.parse(event.data).age));
    source.addEventListener("stale", (event) => {
      const said = JSON.parse(event.data);
      hear(said.age);
      reason = said.reason;
      tell();
    });
    source.addEventListener("error", () => {
      lost = lost || performance.now();
      // A browser connects again by itself, but not after an answer that is no stream.
      if (source && source.readyState === EventSource.CLOSED) again();
    });
  };
  const disconnect = () => {
    clearTimeout(retry);
    if (source) source.close();
    source = null;
  };
  const rest = () => {
    if (!document.hidden || paused) return;
    disconnect();
    retry = setTimeout(connect, HIDDEN_MS);
  };
  const again = () => {
    disconnect();
    retry = setTimeout(connect, RETRY_MS[Math.min(tries, RETRY_MS.length - 1)]);
    tries += 1;
  };
  const hear = (age) => {
    tries = 0;
    lost = 0;
    reason = "";
    heard = performance.now();
    current = heard - age * 1000;
    tell();
  };

  // --- what is shown ----------------------------------------------------------------------------
  const apply = () => {
    if (!pending || held || paused) return;
    const said = pending;
    pending = null;
    morph(said.html);
    if (said.tone !== page.tone || said.count !== page.count) announce(said);
    Object.assign(page, { digest: said.digest, title: said.title, tone: said.tone, count: said.count });
    document.dispatchEvent(new CustomEvent("tallymark:shown"));
    tell();
  };
  const morph = (html) => {
    const focused = content.contains(document.activeElement) ? document.activeElement : null;
    if (!window.Idiomorph) {
      if (!focused) content.innerHTML = html;
      return;
    }
    Idiomorph.morph(content, html, {
      morphStyle: "innerHTML",
      ignoreActiveValue: true,
      callbacks: { beforeNodeMorphed: mayMorph, beforeNodeRemoved: mayRemove, beforeAttributeUpdated: maySet },
    });
    if (focused && !content.contains(document.activeElement)) refocus(focused);
  };
  const refocus = (lost) => {
    const href = lost.getAttribute("href");
    const same = (lost.id && document.getElementById(lost.id))
      || (href && content.querySelector(`a[href="${CSS.escape(href)}"]`));
    (content.contains(lost) ? lost : same || content).focus({ preventScroll: true });
  };
  const mayMorph = (old, fresh) => {
    if (old.nodeType !== Node.ELEMENT_NODE) return true;
    if (old.hasAttribute("data-keep")) return false;
    if (old.localName === "time") return old.getAttribute("datetime") !== fresh.getAttribute("datetime");
    return !(old.matches("form, input, textarea, select") && typedIn(old));
  };
  const mayRemove = (node) => !(node.nodeType === Node.ELEMENT_NODE && typedIn(node));
  const maySet = (name, node) => {
    if (name === "open") return node.localName !== "details"; // the viewer has opened it
    if (name === "hidden") return !node.hasAttribute("data-copy"); // copy.js shows these
    return !(name === "tabindex" && node.closest("[data-roving]")); // the place in a grid
  };
  const typedIn = (node) => {
    const fields = node.matches("input, textarea, select") ? [node] : node.querySelectorAll("input, textarea, select");
    return [...fields].some((one) => one.localName === "select"
      ? [...one.options].some((option) => option.selected !== option.defaultSelected && one.selectedIndex > 0)
      : one.value !== one.defaultValue || one.checked !== one.defaultChecked);
  };

  // --- what is said about it --------------------------------------------------------------------
  const words = (one) => (!one.count ? "nothing is wrong" : one.tone === "bad" ? `${one.count} wrong`
    : one.tone === "warn" ? `${one.count} to look at` : `${one.count}`);
  const announce = (said) => { news.textContent = `${said.title}: ${words(said)}; before: ${words(page)}`; };
  const ago = (ms) => {
    const seconds = Math.max(0, Math.round(ms / 1000));
    return seconds < 120 ? `${seconds} s ago` : seconds < 7200 ? `${Math.floor(seconds / 60)} min ago`
      : `${Math.floor(seconds / 3600)} h ago`;
  };
  const stateNow = (now) => {
    if (paused) return "paused";
    if (heard < since && now - since < 5000 && shownState !== "stale") return "waiting";
    if (lost && now - lost > LOST_MS) return "stale";
    const [silent, old] = document.hidden || now - woken < WAKING_MS
      ? [HIDDEN_SILENT_MS, HIDDEN_SILENT_MS] : [SILENT_MS, OLD_MS];
    if (reason || now - heard > silent || now - current > old) return "stale";
    return "live";
  };
  const tell = () => {
    const now = performance.now();
    const is = stateNow(now);
    const text = { live: "live", waiting: "connecting", paused: "paused", stale: "! not live" }[is];
    put(state, `${text} · updated ${ago(now - current)}`);
    put(why, is === "stale" ? reason || `no answer from the dashboards for ${ago(now - heard).replace(" ago", "")}` : "");
    why.hidden = is !== "stale";
    if (stale && is === "live") stale.hidden = true; // it was of when the page was loaded
    if (is !== shownState) {
      if (is === "stale") news.textContent = "This page is not live any more";
      if (shownState === "stale" && is === "live") news.textContent = "This page is live again";
      document.body.classList.toggle("stale", is === "stale");
      document.body.classList.toggle("paused", is === "paused");
      shownState = is;
    }
    // What was green when the feed stopped is not known to be green.
    const mark = is === "stale" ? "(?) " : page.count ? `(${page.count.toLocaleString("en-US")}) ` : "";
    const title = `${mark}${page.title} · Tallymark`;
    if (document.title !== title) document.title = title;
    const tone = page.tone === "bad" ? "bad" : is === "stale" || page.tone === "warn" ? "warn" : "good";
    const address = icon.dataset[tone];
    if (address && icon.getAttribute("href") !== address) icon.setAttribute("href", address);
  };
  const put = (node, text) => { if (node.textContent !== text) node.textContent = text; };

  // --- pausing, and hidden tabs --------------------------------------------------------------------
  pause.hidden = false;
  pause.addEventListener("click", () => {
    paused = !paused;
    pause.setAttribute("aria-pressed", String(paused));
    put(pause, paused ? "Resume" : "Pause");
    lost = 0;
    if (paused) disconnect(); else connect();
    tell();
  });
  content.addEventListener("pointerdown", () => { held = true; });
  for (const end of ["pointerup", "pointercancel", "blur"]) {
    window.addEventListener(end, () => {
      held = false;
      setTimeout(apply); // after the click that ends with it
    });
  }
  document.addEventListener("visibilitychange", () => {
    if (document.hidden) rest();
    else if (!paused) {
      woken = performance.now();
      connect();
    }
  });
  window.addEventListener("pagehide", disconnect);
  window.addEventListener("pageshow", (event) => { if (event.persisted && !paused) connect(); });
  setInterval(() => {
    if (!paused && source && performance.now() - Math.max(heard, since) > SILENT_MS) again();
    tell();
  }, 1000);
  connect();
})();
