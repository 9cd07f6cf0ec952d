"""What live pages are sent, and when: a state machine without clock, store or socket.

A **feed** is one address as viewers of one kind see it; all its viewers share its newest
fragment. A **viewer** is one open stream. Only the newest fragment matters: a viewer that reads
slowly is sent the newest there is when it can take more, and never what came between.

    poll: the store's marker -> due() -> render -> rendered() -> next_event() of each viewer
                                            \\-> failed()   -> next_event(): "stale"

A feed is rendered when the marker has changed, and every :data:`SLOW_S` in any case, since what a
page shows may change without the store (a window ends, the audit falls behind). Renderings that
cost much are made less often (:data:`SHARE`, :data:`QUIET_SHARE`). A fragment is sent only if its
digest differs from the one that the viewer has, which is also the id of its event: a viewer that
comes back is sent what it has missed, or nothing.

Times are seconds of a clock that never goes back; costs are seconds of a processor.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from tallymark_dashboards.access.user import VIEWER, User

MOST_VIEWERS: Final = 320
"""Below the connections that one host may have, so that pages can still be loaded."""
QUICK_S: Final = 1.0
"""A feed is not rendered more often."""
SLOW_S: Final = 10.0
"""A feed is rendered after so long, though the store has not changed."""
SLOWEST_S: Final = 30.0
"""However much a rendering costs, a feed is rendered again after so long."""
SHARE: Final = 0.025
"""What all renderings together may take of a processor while the store changes all the time."""
MAX_DIGEST: Final = 100
"""Characters of a digest that a viewer may name."""
QUIET_SHARE: Final = 0.01
"""And what they may take while it does not change."""
BEAT_S: Final = 10.0
"""After so long without an event a viewer is sent that what it has is current."""


class Address(NamedTuple):
    """What is rendered once for all its viewers: a page, its query, the user who sees it, and the
    prefix of its links (None: that of the settings).
    Users who may change nothing see the same, so they are one user here, without a name
    (:meth:`of`)."""

    path: str
    query: tuple[tuple[str, str], ...] = ()
    user: User = VIEWER
    prefix: str | None = None

    @classmethod
    def of(
        cls, path: str, query: Iterable[tuple[str, str]], user: User, prefix: str | None = None
    ) -> Address:
        """The address as this user sees it."""
        seen_by = user if user.may_act else User("", user.roles)
        return cls(path, tuple(query), seen_by, prefix)


@dataclass(frozen=True, slots=True)
class Fragment:
    """A fragment as it goes over the wire, plain and compressed."""

    digest: str
    plain: bytes
    packed: bytes


@dataclass(frozen=True, slots=True)
class Shown:
    """Event: a new fragment."""

    fragment: Fragment


@dataclass(frozen=True, slots=True)
class Stale:
    """Event: the feed cannot be rendered now; what the viewer has is of ``age_s`` ago. It is
    repeated as often as a beat."""

    reason: str
    age_s: float


@dataclass(frozen=True, slots=True)
class Beat:
    """Event: what the viewer has is what the store says, as of ``age_s`` ago."""

    age_s: float


Event = Shown | Stale | Beat


class TooManyViewersError(Exception):
    """No more viewers are taken now."""


@dataclass(eq=False, slots=True)
class Viewer:
    """One open stream. ``has``: the digest of what it shows, empty if unknown."""

    address: Address
    has: str
    sent_at: float | None = None
    sent_stale: bool = False


@dataclass(slots=True)
class _Feed:
    viewers: set[Viewer] = field(default_factory=set)
    newest: Fragment | None = None
    marker: str | None = None
    rendered_at: float | None = None
    current_at: float | None = None
    cost_s: float = 0.0
    away: str = ""


class Feeds:
    """All feeds that have a viewer. From one thread."""

    def __init__(self, most_viewers: int = MOST_VIEWERS) -> None:
        self._most = most_viewers
        self._feeds: dict[Address, _Feed] = {}
        self._count = 0

    def __len__(self) -> int:
        """How many viewers there are."""
        return self._count

    def join(self, address: Address, has: str = "") -> Viewer:
        """A new viewer, which has the fragment of this digest. TooManyViewersError: the limit is
        reached."""
        if self._count >= self._most:
            raise TooManyViewersError
        viewer = Viewer(address, has)
        self._feeds.setdefault(address, _Feed()).viewers.add(viewer)
        self._count += 1
        return viewer

    def leave(self, viewer: Viewer) -> None:
        """Forget a viewer, and the feed with its last one. Idempotent."""
        feed = self._feeds.get(viewer.address)
        if feed is None or viewer not in feed.viewers:
            return
        feed.viewers.discard(viewer)
        self._count -= 1
        if not feed.viewers:
            del self._feeds[viewer.address]

    def due(self, marker: str, now: float) -> list[Address]:
        """What is to be rendered, the longest wait first, since the store is at ``marker``."""
        quick, slow = self.quick_s(), self.slow_s()
        found: list[tuple[float, Address]] = []
        for address, feed in self._feeds.items():
            if feed.rendered_at is None:
                found.append((float("-inf"), address))
                continue
            changed = marker != feed.marker
            wait = quick if changed or feed.away else slow
            if now - feed.rendered_at >= wait:
                found.append((feed.rendered_at, address))
            elif not changed and not feed.away:
                feed.current_at = now
        return [address for _, address in sorted(found, key=lambda one: one[0])]

    def quick_s(self) -> float:
        """How long a feed is left alone after a rendering, at present."""
        return min(max(QUICK_S, self._cost_s() / SHARE), SLOWEST_S)

    def slow_s(self) -> float:
        """The same while the store does not change."""
        return min(max(SLOW_S, self._cost_s() / QUIET_SHARE), SLOWEST_S)

    def _cost_s(self) -> float:
        return sum(feed.cost_s for feed in self._feeds.values())

    def rendered(
        self, address: Address, fragment: Fragment, marker: str, now: float, cost_s: float
    ) -> None:
        """The fragment of a feed as of ``marker``; nothing happens if its viewers have left."""
        feed = self._feeds.get(address)
        if feed is None:
            return
        if feed.newest is None or feed.newest.digest != fragment.digest:
            feed.newest = fragment
        feed.marker, feed.away = marker, ""
        feed.rendered_at = feed.current_at = now
        feed.cost_s = cost_s

    def failed(self, address: Address, reason: str, now: float) -> None:
        """A feed could not be rendered; it keeps what it has."""
        feed = self._feeds.get(address)
        if feed is not None:
            feed.away, feed.rendered_at = reason, now

    def all_failed(
        self, reason: str, now: float, needs_store: Callable[[str], bool] = lambda path: True
    ) -> None:
        """The store cannot be read at all: no page can be rendered of those whose path needs it."""
        for address in self._feeds:
            if needs_store(address.path):
                self.failed(address, reason, now)

    def waiting(self, now: float) -> Iterator[Viewer]:
        """The viewers for which there is an event."""
        for feed in self._feeds.values():
            for viewer in feed.viewers:
                if _next_event(feed, viewer, now) is not None:
                    yield viewer

    def next_event(self, viewer: Viewer, now: float) -> Event | None:
        """What the viewer is to be sent now. It counts as sent."""
        feed = self._feeds.get(viewer.address)
        if feed is None or viewer not in feed.viewers:
            return None
        found = _next_event(feed, viewer, now)
        if found is not None:
            viewer.sent_at = now
            viewer.sent_stale = isinstance(found, Stale)
        if isinstance(found, Shown):
            viewer.has = found.fragment.digest
        return found

    def addresses(self) -> Mapping[Address, int]:
        """How many viewers each feed has."""
        return {address: len(feed.viewers) for address, feed in self._feeds.items()}


def _next_event(feed: _Feed, viewer: Viewer, now: float) -> Event | None:
    if feed.newest is not None and feed.newest.digest != viewer.has:
        return Shown(feed.newest)
    age = now - feed.current_at if feed.current_at is not None else 0.0
    quiet = viewer.sent_at is None or now - viewer.sent_at >= BEAT_S
    if feed.away:
        return Stale(feed.away, age) if quiet or not viewer.sent_stale else None
    if feed.newest is None:
        return None  # it is being rendered for the first time
    return Beat(age) if quiet or viewer.sent_stale else None
