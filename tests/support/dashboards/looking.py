"""What a test looks for on a page that a browser has drawn."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import urlsplit

from playwright.sync_api import Page
from project import ROOT

AXE: Final = ROOT / "dashboards/node_modules/axe-core/axe.min.js"
SERIOUS: Final = ("serious", "critical")

_WIDER: Final = """() => {
  const wide = document.scrollingElement;
  if (wide.scrollWidth <= wide.clientWidth) return [];
  return [...document.querySelectorAll("body *")]
    .filter(one => !one.closest(".scroll"))
    .filter(one => one.getBoundingClientRect().right > wide.clientWidth + 1)
    .slice(0, 5)
    .map(one => `${one.tagName}.${one.className} "${one.textContent.trim().slice(0, 40)}" ends at `
      + Math.round(one.getBoundingClientRect().right) + " of " + wide.clientWidth);
}"""

_BROKEN: Final = """() => {
  const found = [];
  for (const cell of document.querySelectorAll("td, th, dt, dd, .state, .pulse b, nav a, button")) {
    if (!cell.offsetParent || cell.closest("pre")) continue;
    const texts = document.createTreeWalker(cell, NodeFilter.SHOW_TEXT);
    for (let node = texts.nextNode(); node; node = texts.nextNode()) {
      const hidden = ".visually-hidden, details:not([open]) > :not(summary)";
      if (node.parentElement.closest(hidden)) continue;
      for (const word of node.data.matchAll(/[^\\s._:\\/,;…–-]+/g)) {
        const range = document.createRange();
        range.setStart(node, word.index);
        range.setEnd(node, word.index + word[0].length);
        const lines = new Set([...range.getClientRects()].map(one => Math.round(one.top)));
        if (lines.size < 2) continue;
        found.push(`"${word[0].slice(0, 40)}" in ${cell.tagName}.${cell.className}`);
      }
    }
  }
  return found.slice(0, 5);
}"""

_OUT_OF_BOX: Final = """() =>
  [...document.querySelectorAll(".pulse b, .strip li > *")]
    .filter(one => one.offsetParent && one.scrollWidth > one.clientWidth + 1)
    .slice(0, 5)
    .map(one => `"${one.innerText}" needs ${one.scrollWidth} of ${one.clientWidth}`)
"""

_REPEATED: Final = """() => {
  const ids = [...document.querySelectorAll("[id]")].map(one => one.id);
  return [...new Set(ids.filter((one, at) => ids.indexOf(one) !== at))];
}"""

_UNSEEN_FOCUS: Final = """() => {
  const one = document.activeElement;
  if (!one || one === document.body) return null;
  const look = getComputedStyle(one);
  const seen = look.outlineStyle !== "none" && parseFloat(look.outlineWidth) >= 1;
  const box = one.getBoundingClientRect();
  return {
    seen: seen || look.boxShadow !== "none" || one.id === "content",
    what: `${one.tagName}#${one.id} "${(one.textContent || "").trim().slice(0, 30)}"`,
    box: [box.width, box.height],
  };
}"""


@dataclass
class Heard:
    """What a page asked for and complained about while it was open."""

    requests: list[str] = field(default_factory=list[str])
    errors: list[str] = field(default_factory=list[str])

    def elsewhere(self, url: str) -> list[str]:
        """The addresses that are not on the host of ``url``."""
        host = urlsplit(url).netloc
        return [one for one in self.requests if urlsplit(one).netloc not in (host, "")]


@contextmanager
def listening(page: Page) -> Iterator[Heard]:
    """Hear what the page does from now on."""
    heard = Heard()
    page.on("request", lambda one: heard.requests.append(one.url))
    page.on("pageerror", lambda one: heard.errors.append(str(one)))
    page.on(
        "console",
        lambda one: heard.errors.append(one.text) if one.type in ("error", "warning") else None,
    )
    yield heard


def wider_than_the_page(page: Page) -> list[str]:
    """What makes the page scroll sideways; empty when it does not."""
    found: list[str] = page.evaluate(_WIDER)
    return found


def wider_than_their_box(page: Page) -> list[str]:
    """Numbers of the pulse, symbols and counts of cells that stand out of their box."""
    found: list[str] = page.evaluate(_OUT_OF_BOX)
    return found


def broken_words(page: Page) -> list[str]:
    """Words in cells that stand on two lines."""
    found: list[str] = page.evaluate(_BROKEN)
    return found


def repeated_ids(page: Page) -> list[str]:
    """Ids that more than one element has: a live page changes the wrong one of them."""
    found: list[str] = page.evaluate(_REPEATED)
    return found


def focused(page: Page) -> dict[str, Any] | None:
    """The element that has the focus, and whether that can be seen; None: the page has it."""
    found: dict[str, Any] | None = page.evaluate(_UNSEEN_FOCUS)
    return found


def at_the_top(page: Page) -> None:
    """The next Tab leads to the first stop of the page, wherever the focus was."""
    page.evaluate(
        """() => { const body = document.body; body.tabIndex = -1; body.focus();
        body.removeAttribute("tabindex"); getSelection().removeAllRanges(); scrollTo(0, 0); }"""
    )


def serious_findings(page: Page, rules: Sequence[str] = ()) -> list[str]:
    """What axe finds serious or worse, 24 px targets included. ``rules``: only by these."""
    if not page.evaluate("() => 'axe' in window"):
        page.evaluate(AXE.read_text(encoding="utf-8"))
    options: dict[str, Any] = {"resultTypes": ["violations"]}
    if rules:
        options["runOnly"] = list(rules)
    else:
        options["rules"] = {"target-size": {"enabled": True}}
    found = page.evaluate("options => axe.run(document, options)", options)
    return [
        f"{one['id']}: {node['target']} {node['failureSummary']}"[:400]
        for one in found["violations"]
        if one["impact"] in SERIOUS
        for node in one["nodes"][:3]
    ]
