"""From an address to HTML. A page is a *document* (head, navigation, time range; the same for all)
around a *fragment*, the inner HTML of ``<main id="content">``, which is what changes while the page
is live. Nothing in a fragment changes by the passing of time alone: see ``static/times.js``."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from tallymark_audit.model.time_format import utc
from tallymark_audit.store.reading.age import AuditAge
from tallymark_dashboards.access.user import User
from tallymark_dashboards.frame.ask import Ask, bounded
from tallymark_dashboards.frame.context import Context
from tallymark_dashboards.frame.links import Links
from tallymark_dashboards.frame.navigation import bar
from tallymark_dashboards.frame.page import Page
from tallymark_dashboards.frame.registry import PAGES, PageEntry, page_at
from tallymark_dashboards.frame.time_range import NAMED, TimeRange, time_range
from tallymark_dashboards.view.marks import Tone


@dataclass(frozen=True, slots=True)
class Rendered:
    """``html``: the fragment. ``digest`` differs when anything that is to be seen differs: the
    fragment, or what the tab shows."""

    html: str
    title: str
    tone: Tone
    count: int
    status: int
    digest: str


@dataclass(frozen=True, slots=True)
class Composed:
    """A page function's answer, with all that the templates are given."""

    entry: PageEntry | None
    page: Page
    links: Links
    range: TimeRange
    values: Mapping[str, Any]


def render(
    context: Context,
    path: str,
    query: Iterable[tuple[str, str]],
    user: User,
    now: int,
    prefix: str | None = None,
) -> Rendered:
    """The fragment of the page at ``path`` ("/topic"). ``query``: the pairs of its address.
    LookupError: no page is there. SQLAlchemyError: the store cannot be read."""
    return fragment(context, compose(context, path, query, user, now, prefix))


def compose(
    context: Context,
    path: str,
    query: Iterable[tuple[str, str]],
    user: User,
    now: int,
    prefix: str | None = None,
) -> Composed:
    """Ask the page function; nothing is rendered yet. ``prefix``: what links begin with; None: as
    the settings say. Errors as for :func:`render`."""
    entry = page_at(path)
    if entry is None:
        raise LookupError(f"no page is at {path}")
    asked, notes = bounded(query)
    span, more = time_range(asked, now)  # a page that has none keeps it for those it leads to
    notes.extend(more if entry.ranged else ())
    if entry.needs_store:
        with context.store.read() as connection:
            age = context.ages.at(connection, now)
            ask = Ask(context, connection, now, asked, user, span, age, notes)
            page = entry.function(ask)
    else:
        known, away = context.ages.if_known(context.store, now)
        ask = Ask(context, None, now, asked, user, span, known, notes, away)
        page = _without_store(entry.function(ask), away)
    below = context.prefix if prefix is None else prefix
    links = Links(below, context.static, path, asked, span.query)
    told = tuple(dict.fromkeys(ask.notes))
    return composed(context, page, links, span, user, entry, told, ask.age_known)


def _without_store(page: Page, away: str) -> Page:
    """A page of brokers or the registry, while the store is ``away``: it says so."""
    if not away:
        return page
    tone: Tone = "bad" if page.tone == "bad" else "warn"
    return replace(page, tone=tone, values={**page.values, "away": away})


def composed(
    context: Context,
    page: Page,
    links: Links,
    span: TimeRange,
    user: User,
    entry: PageEntry | None = None,
    notes: tuple[str, ...] = (),
    age: AuditAge | None = None,
) -> Composed:
    """What the templates of a page are given."""
    shared: dict[str, Any] = {
        "deployment": context.deployment,
        "user": user,
        "range": span,
        "link": links.link,
        "here": links.here,
        "static": links.static,
        "notes": (*notes, *page.notes),
        "age": age,
    }
    return Composed(entry, page, links, span, {**shared, **page.values})


def fragment(context: Context, one: Composed) -> Rendered:
    """The part of a page that may change."""
    page = one.page
    html = _part(context, one, "content")
    seen = f"{page.title}\0{page.tone}\0{page.count}\0{html}"
    return Rendered(
        html=html,
        title=page.title,
        tone=page.tone,
        count=page.count,
        status=page.status,
        digest=hashlib.sha256(seen.encode(errors="replace")).hexdigest()[:16],
    )


def document(context: Context, one: Composed, shown: Rendered, now: int, stale: str = "") -> str:
    """The whole page around a fragment. It is as of the time up to which the audit has come, if
    that is known. ``stale``: why the fragment is an old one."""
    template = context.templates.get_template("document.html")
    age: AuditAge | None = one.values.get("age")
    return template.render(
        **{
            **one.values,
            "page": shown,
            "entry": one.entry,
            "bar": bar(PAGES, one.entry),
            "tools": _part(context, one, "tools"),
            "ranges": NAMED,
            "query": one.links.query,
            "as_of": utc(min(now, age.judged_through_ms) if age else now),
            "stale": stale,
            "now": now,
            "sheets": context.sheets,
            "has_morph": context.has_morph,
            "prefix": one.links.prefix,
        }
    )


def _part(context: Context, one: Composed, part: str) -> str:
    return context.templates.get_template(one.page.template).render({**one.values, "part": part})
