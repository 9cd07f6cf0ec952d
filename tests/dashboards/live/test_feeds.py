"""What viewers are sent and when, without clock, store or socket."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from tallymark_dashboards.access.user import Role, User
from tallymark_dashboards.live.feeds import (
    BEAT_S,
    QUICK_S,
    SHARE,
    SLOW_S,
    SLOWEST_S,
    Address,
    Beat,
    Feeds,
    Fragment,
    Shown,
    Stale,
    TooManyViewersError,
    Viewer,
)

HERE = Address("/")
THERE = Address("/topic", (("topic", "clicks"),))


def fragment(digest: str) -> Fragment:
    return Fragment(digest, digest.encode(), digest.encode())


def render(feeds: Feeds, digest: str, now: float, marker: str = "m", cost_s: float = 0.0) -> None:
    feeds.rendered(HERE, fragment(digest), marker, now, cost_s)


def test_one_rendering_serves_all_who_look_at_the_same_address() -> None:
    feeds = Feeds()
    viewers = [feeds.join(HERE) for _ in range(3)]
    assert feeds.due("m", 0.0) == [HERE]
    render(feeds, "a", 0.0)
    assert [feeds.next_event(one, 0.0) for one in viewers] == [Shown(fragment("a"))] * 3
    assert [feeds.next_event(one, 0.0) for one in viewers] == [None] * 3


def test_who_may_act_has_a_feed_of_their_own() -> None:
    """Their pages have forms with their names; all who only look see the same."""
    feeds = Feeds()
    looking = [User(), User.of("ann", [Role.VIEWER]), User.of("bob", [Role.VIEWER])]
    acting = [User.of("eve", [Role.OPERATOR]), User.of("kim", [Role.OPERATOR])]
    for user in (*looking, *acting):
        feeds.join(Address.of("/", (), user))
    assert sorted(feeds.addresses().values()) == [1, 1, 3]


def test_a_change_that_nothing_shows_is_not_sent() -> None:
    feeds = Feeds()
    viewer = feeds.join(HERE)
    render(feeds, "a", 0.0, "m1")
    feeds.next_event(viewer, 0.0)
    assert feeds.due("m2", QUICK_S) == [HERE]
    render(feeds, "a", QUICK_S, "m2")
    assert feeds.next_event(viewer, QUICK_S) is None


def test_a_viewer_that_comes_back_gets_what_it_missed_or_nothing() -> None:
    """Last-Event-ID is the digest of what the page shows."""
    feeds = Feeds()
    render_for = feeds.join(HERE)
    render(feeds, "b", 0.0)
    feeds.next_event(render_for, 0.0)
    missed, had = feeds.join(HERE, "a"), feeds.join(HERE, "b")
    assert feeds.next_event(missed, 1.0) == Shown(fragment("b"))
    assert feeds.next_event(had, 1.0) == Beat(1.0)


def test_a_slow_reader_skips_what_came_between() -> None:
    feeds = Feeds()
    viewer = feeds.join(HERE)
    for second, digest in enumerate("abcdef"):
        render(feeds, digest, float(second), digest)
    assert feeds.next_event(viewer, 6.0) == Shown(fragment("f"))
    assert feeds.next_event(viewer, 6.0) is None


def test_a_quiet_store_is_looked_at_by_a_slow_clock() -> None:
    """The audit falls behind, and windows end, without a change in the store."""
    feeds = Feeds()
    feeds.join(HERE)
    render(feeds, "a", 0.0)
    assert feeds.due("m", SLOW_S - 0.1) == []
    assert feeds.due("m", SLOW_S) == [HERE]


def test_what_costs_much_is_rendered_less_often() -> None:
    feeds = Feeds()
    feeds.join(HERE)
    render(feeds, "a", 0.0, cost_s=0.1)
    assert feeds.quick_s() == pytest.approx(0.1 / SHARE)
    assert feeds.due("new", 0.1 / SHARE - 0.01) == []
    assert feeds.due("new", 0.1 / SHARE) == [HERE]
    render(feeds, "b", 0.1 / SHARE, cost_s=60.0)
    assert feeds.quick_s() == SLOWEST_S


def test_the_longest_wait_is_ended_first() -> None:
    feeds = Feeds()
    for address in (HERE, THERE):
        feeds.join(address)
    feeds.rendered(HERE, fragment("a"), "m", 1.0, 0.0)
    feeds.rendered(THERE, fragment("b"), "m", 0.0, 0.0)
    assert feeds.due("new", 5.0) == [THERE, HERE]


def test_a_viewer_hears_at_intervals_that_what_it_has_is_current() -> None:
    feeds = Feeds()
    viewer = feeds.join(HERE)
    render(feeds, "a", 0.0)
    feeds.next_event(viewer, 0.0)
    assert feeds.due("m", BEAT_S - 0.5) == []
    assert feeds.next_event(viewer, BEAT_S - 0.1) is None
    assert feeds.next_event(viewer, BEAT_S) == Beat(0.5)
    assert feeds.next_event(viewer, BEAT_S) is None


def test_a_store_that_is_away_keeps_the_feed_and_says_so() -> None:
    feeds = Feeds()
    viewer = feeds.join(HERE)
    render(feeds, "a", 0.0)
    feeds.next_event(viewer, 0.0)
    feeds.all_failed("gone", 2.0)
    assert feeds.next_event(viewer, 2.0) == Stale("gone", 2.0)
    assert feeds.next_event(viewer, 3.0) is None
    assert feeds.next_event(viewer, 2.0 + BEAT_S) == Stale("gone", 2.0 + BEAT_S)
    assert feeds.due("m", 13.0) == [HERE]
    render(feeds, "a", 13.0)
    assert feeds.next_event(viewer, 13.0) == Beat(0.0)


def test_a_new_viewer_of_a_feed_that_is_away_gets_what_there_was() -> None:
    feeds = Feeds()
    feeds.join(HERE)
    render(feeds, "a", 0.0)
    feeds.all_failed("gone", 5.0)
    viewer = feeds.join(HERE)
    assert feeds.next_event(viewer, 6.0) == Shown(fragment("a"))
    assert feeds.next_event(viewer, 6.0) == Stale("gone", 6.0)


def test_there_is_a_limit_and_who_leaves_makes_room() -> None:
    feeds = Feeds(most_viewers=2)
    first = feeds.join(HERE)
    feeds.join(THERE)
    with pytest.raises(TooManyViewersError):
        feeds.join(HERE)
    feeds.leave(first)
    feeds.leave(first)
    feeds.join(THERE)
    assert feeds.addresses() == {THERE: 2}


def test_a_rendering_for_viewers_who_have_left_is_dropped() -> None:
    feeds = Feeds()
    viewer = feeds.join(HERE)
    feeds.leave(viewer)
    render(feeds, "a", 0.0)
    feeds.failed(HERE, "gone", 0.0)
    assert feeds.next_event(viewer, 0.0) is None
    assert feeds.due("m", 99.0) == []


@given(st.lists(st.floats(0, 0.5), min_size=1, max_size=40))
def test_renderings_keep_to_their_share_of_a_processor(costs: list[float]) -> None:
    """Of any mixture of pages, while the store changes all the time."""
    feeds, spent, now = Feeds(), 0.0, 0.0
    addresses = {Address(f"/{number}"): cost for number, cost in enumerate(costs)}
    for address in addresses:
        feeds.join(address)
    for address in feeds.due("0", now):  # each once, to learn what it costs
        feeds.rendered(address, fragment("a"), "0", now, addresses[address])
    while now < 120:
        now += 1.0
        for address in feeds.due(str(now), now):
            feeds.rendered(address, fragment(str(now)), str(now), now, addresses[address])
            spent += addresses[address]
    most = max(SHARE, sum(costs) / SLOWEST_S)
    assert spent <= most * (now + feeds.quick_s()) + 1e-9


class ManyViewers(RuleBasedStateMachine):
    """Whatever happens in which order, each viewer ends with the newest fragment."""

    def __init__(self) -> None:
        super().__init__()
        self.feeds = Feeds(most_viewers=5)
        self.now = 0.0
        self.marker = 0
        self.viewers: list[Viewer] = []
        self.shows: dict[int, str] = {}
        self.newest: dict[Address, str] = {}

    @rule(address=st.sampled_from([HERE, THERE]), has=st.sampled_from(["", "d0", "d1", "d2"]))
    def join(self, address: Address, has: str) -> None:
        try:
            viewer = self.feeds.join(address, has)
        except TooManyViewersError:
            assert len(self.viewers) == 5
            return
        self.viewers.append(viewer)
        self.shows[id(viewer)] = has

    @precondition(lambda self: self.viewers)
    @rule(data=st.data())
    def leave(self, data: st.DataObject) -> None:
        viewer = data.draw(st.sampled_from(self.viewers))
        self.viewers.remove(viewer)
        self.feeds.leave(viewer)
        if all(one.address != viewer.address for one in self.viewers):
            self.newest.pop(viewer.address, None)

    @rule(seconds=st.floats(0, 40), digest=st.integers(0, 2), change=st.booleans())
    def poll(self, seconds: float, digest: int, change: bool) -> None:
        self.now += seconds
        self.marker += change
        for address in self.feeds.due(str(self.marker), self.now):
            self.newest[address] = f"d{digest}"
            self.feeds.rendered(address, fragment(f"d{digest}"), str(self.marker), self.now, 0.01)

    @rule()
    def fail(self) -> None:
        self.feeds.all_failed("gone", self.now)

    @rule()
    def read(self) -> None:
        waiting = set(map(id, self.feeds.waiting(self.now)))
        for viewer in self.viewers:
            told = 0
            while (event := self.feeds.next_event(viewer, self.now)) is not None:
                told += 1
                if isinstance(event, Shown):
                    assert event.fragment.digest != self.shows[id(viewer)]
                    self.shows[id(viewer)] = event.fragment.digest
                else:
                    assert event.age_s >= 0
            assert told <= 2  # what it shows, and that it is stale
            assert (told > 0) == (id(viewer) in waiting)
            newest = self.newest.get(viewer.address)
            assert newest is None or self.shows[id(viewer)] == newest

    @invariant()
    def counts(self) -> None:
        assert len(self.feeds) == len(self.viewers) == sum(self.feeds.addresses().values())


TestManyViewers = ManyViewers.TestCase
