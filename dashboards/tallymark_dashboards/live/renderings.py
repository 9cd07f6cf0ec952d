"""A cache of rendered pages.

While nothing is written to the store and the snapshots, requests for a page within one second get
the same rendering. While many windows are judged, something is written all the time: then requests
that wait for a page get one rendering, which began after the last of these requests had come. The
last rendering of each page is kept for the time in which the store cannot be read.
"""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Final, Generic, TypeVar

from sqlalchemy.exc import SQLAlchemyError

from tallymark.clock import now_ms
from tallymark_audit.model.time_format import utc
from tallymark_audit.store.reading.marker import StoreVersion, store_marker
from tallymark_dashboards.access.user import VIEWER, User
from tallymark_dashboards.frame.context import Context
from tallymark_dashboards.frame.registry import needs_store, page_at
from tallymark_dashboards.frame.rendering import Composed, Rendered, compose, fragment
from tallymark_dashboards.live import wire
from tallymark_dashboards.live.feeds import Address, Fragment

SAME_S: Final = 1.0
"""How long a rendering is as good as a new one, while nothing is written."""
MOST: Final = 100
"""Pages of which the last rendering is kept."""
LARGEST: Final = 1_000_000
"""Characters of a fragment that is kept."""
MOST_NAMED: Final = 5
"""Addresses that are offered instead of a page that was never made."""
_LOCKS: Final = 16


@dataclass(frozen=True, slots=True)
class PageShown:
    """A page, composed and rendered at ``at`` (ms). ``stale``: why it is an old one, else empty."""

    composed: Composed
    rendered: Rendered
    at: int
    stale: str = ""


@dataclass(frozen=True, slots=True)
class _Kept:
    composed: Composed
    rendered: Rendered
    version: str
    at: float
    at_ms: int


class Renderings:
    """Of one application. Threads may share it."""

    def __init__(self, context: Context, clock: Callable[[], float] = time.monotonic) -> None:
        self._context = context
        self._clock = clock
        self._version = StoreVersion(context.store)
        self._kept: _Newest[Address, _Kept] = _Newest(MOST)
        self._packed: _Newest[Address, Fragment] = _Newest(MOST)
        self._locks = [threading.Lock() for _ in range(_LOCKS)]
        self.made = 0
        """How many were made."""

    def marker(self) -> str:
        """A text that differs after every change that a page may show. SQLAlchemyError: the store
        cannot be read."""
        with self._context.store.read() as connection:
            return f"{store_marker(connection)}/{self._context.snapshots.version}"

    def page(
        self,
        path: str,
        query: Sequence[tuple[str, str]],
        user: User,
        prefix: str | None = None,
    ) -> PageShown:
        """The page as this user sees it, with links below ``prefix`` (None: that of the settings).
        While the store is away, the last one that was made for this user, else for any viewer;
        SQLAlchemyError: there is none. LookupError: no page is there."""
        address, asked = Address.of(path, query, user, prefix), self._clock()
        entry = page_at(path)
        if entry is not None and entry.asks:
            return self._new(address)
        with self._locks[hash(address) % _LOCKS]:  # requests for one page: one renders, others wait
            try:
                return _seen_by(user, self._made(address, asked))
            except SQLAlchemyError as error:
                kept = self._kept.get(address) or self._kept.get(_of_viewers(address))
                if kept is None:
                    raise
                why = _stale(error, kept.at_ms)
                return _seen_by(user, PageShown(kept.composed, kept.rendered, kept.at_ms, why))

    def fragment(self, address: Address) -> Fragment:
        """The fragment for live connections. SQLAlchemyError: the store cannot be read."""
        asked = self._clock()
        with self._locks[hash(address) % _LOCKS]:
            shown = self._made(address, asked).rendered
            packed = self._packed.get(address)
            if packed is None or packed.digest != shown.digest:
                packed = wire.fragment(
                    shown.digest, shown.html, shown.title, shown.tone, shown.count
                )
                self._packed.put(address, packed)
            return packed

    def kept_at(
        self, path: str, user: User, prefix: str | None = None
    ) -> list[tuple[tuple[tuple[str, str], ...], int]]:
        """The queries with which the page at ``path`` was made for this user or for any viewer, and
        when (ms), the newest first; at most :data:`MOST_NAMED`."""
        mine = Address.of(path, (), user, prefix)
        found: dict[tuple[tuple[str, str], ...], int] = {}
        for address, kept in self._kept.items():
            if address._replace(query=()) in (mine, _of_viewers(mine)):
                found[address.query] = max(kept.at_ms, found.get(address.query, 0))
        return sorted(found.items(), key=lambda one: -one[1])[:MOST_NAMED]

    def close(self) -> None:
        """Give the connection back. Idempotent."""
        self._version.close()

    def _made(self, address: Address, asked: float) -> PageShown:
        """A rendering that is not older than a request that came at ``asked`` (by the clock)."""
        version = f"{self._store_version(address.path)}/{self._context.snapshots.version}"
        kept = self._kept.get(address)
        same = kept is not None and kept.version == version and self._clock() - kept.at < SAME_S
        if kept is not None and (same or kept.at > asked):
            return PageShown(kept.composed, kept.rendered, kept.at_ms)
        began = self._clock()
        new = self._new(address)
        if len(new.rendered.html) <= LARGEST:
            self._kept.put(address, _Kept(new.composed, new.rendered, version, began, new.at))
        return new

    def _store_version(self, path: str) -> str:
        try:
            return self._version.read()
        except SQLAlchemyError:
            if needs_store(path):
                raise
            return "away"

    def _new(self, address: Address) -> PageShown:
        self.made += 1
        began_ms = now_ms()
        path, query, user, prefix = address
        composed = compose(self._context, path, query, user, began_ms, prefix)
        return PageShown(composed, fragment(self._context, composed), began_ms)


def _of_viewers(address: Address) -> Address:
    """As users see it who may look and change nothing; every user of a page may look."""
    return address._replace(user=VIEWER)


def _seen_by(user: User, shown: PageShown) -> PageShown:
    """The page under the name of this user: users who may change nothing share a rendering."""
    if shown.composed.values["user"] == user:
        return shown
    values = {**shown.composed.values, "user": user}
    return replace(shown, composed=replace(shown.composed, values=values))


def _stale(error: SQLAlchemyError, at_ms: int) -> str:
    cause = getattr(error, "orig", None) or error
    return f"The audit store cannot be read now ({cause}). This page is of {utc(at_ms)}."


_Key = TypeVar("_Key")
_Value = TypeVar("_Value")


class _Newest(Generic[_Key, _Value]):
    """The values that were put or got last."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._values: OrderedDict[_Key, _Value] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, key: _Key) -> _Value | None:
        with self._lock:
            if key in self._values:
                self._values.move_to_end(key)
            return self._values.get(key)

    def items(self) -> list[tuple[_Key, _Value]]:
        with self._lock:
            return list(self._values.items())

    def put(self, key: _Key, value: _Value) -> None:
        with self._lock:
            self._values[key] = value
            self._values.move_to_end(key)
            while len(self._values) > self._most:
                self._values.popitem(last=False)
