"""The feeds in an event loop: one look at the store and one rendering serve all viewers."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import AsyncGenerator, Awaitable, Callable
from typing import Any

import pytest
from sqlalchemy.exc import OperationalError

from tallymark_dashboards.live import wire
from tallymark_dashboards.live.feeds import Address, Feeds, Fragment, TooManyViewersError
from tallymark_dashboards.live.hub import Hub
from tallymark_dashboards.pages import load_pages

HERE = Address("/")


class Store:
    """What a hub asks: a marker, and the page as it is now."""

    def __init__(self) -> None:
        self.marker, self.html = "m0", "<p>one</p>"
        self.fails: Exception | None = None
        self.away: Exception | None = None
        self.looks = 0

    def now(self) -> str:
        self.looks += 1
        if self.fails is not None or self.away is not None:
            raise self.fails or self.away or AssertionError
        return self.marker

    def render(self, address: Address) -> Fragment:
        if self.fails is not None:
            raise self.fails
        if self.away is not None and address == HERE:
            raise self.away
        return wire.fragment(self.html, self.html, address.path, "", 0)

    def change(self, html: str) -> None:
        self.marker, self.html = html, html


class Reader:
    """A page that is open: it takes one event at a time."""

    def __init__(self, hub: Hub, has: str = "", address: Address = HERE) -> None:
        self.gone: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.viewer = hub.join(address, has)
        self.hub = hub
        self.stream: AsyncGenerator[bytes, None] = hub.stream(self.viewer, False, self.gone)

    async def event(self) -> tuple[str, dict[str, Any]]:
        """The name and the data of the next event."""
        while True:
            text = (await asyncio.wait_for(anext(self.stream), 20)).decode()
            fields = dict(line.split(": ", 1) for line in text.splitlines() if ": " in line)
            if "event" in fields:
                return fields["event"], json.loads(fields["data"])

    async def close(self) -> None:
        await self.stream.aclose()
        self.hub.leave(self.viewer)


def running(
    scenario: Callable[[Hub, Store], Awaitable[None]], feeds: Feeds | None = None
) -> tuple[Hub, Store]:
    store = Store()

    async def run() -> Hub:
        hub = Hub(store.now, store.render, feeds, poll_s=0.06)
        await scenario(hub, store)
        hub.stop()
        return hub

    return asyncio.run(run()), store


def test_all_viewers_get_one_rendering() -> None:
    async def scenario(hub: Hub, store: Store) -> None:
        readers = [Reader(hub) for _ in range(20)]
        for reader in readers:
            name, said = await reader.event()
            assert (name, said["html"]) == ("page", "<p>one</p>")

    hub, _ = running(scenario)
    assert hub.renderings == 1


@pytest.mark.slow
def test_a_change_reaches_a_viewer() -> None:
    async def scenario(hub: Hub, store: Store) -> None:
        reader = Reader(hub, has="<p>one</p>")
        assert (await reader.event())[0] == "beat"
        store.change("<p>two</p>")
        assert (await reader.event())[1]["html"] == "<p>two</p>"

    running(scenario)


@pytest.mark.slow
def test_a_store_that_fails_and_comes_back() -> None:
    """The feed is kept: who had the newest fragment needs no other."""

    async def scenario(hub: Hub, store: Store) -> None:
        reader = Reader(hub)
        await reader.event()
        store.fails = OperationalError("select", {}, OSError("the disk is gone"))
        name, said = await reader.event()
        assert name == "stale"
        assert "the disk is gone" in said["reason"]
        late = Reader(hub)
        assert [(await late.event())[0] for _ in range(2)] == ["page", "stale"]
        store.fails = None
        assert (await reader.event())[0] == "beat"
        store.change("<p>two</p>")
        assert (await reader.event())[1]["html"] == "<p>two</p>"

    running(scenario)


def test_a_page_that_needs_no_store_goes_on_while_it_is_away() -> None:
    """The store's disk was gone: the open page of consumer groups stood still with it."""
    load_pages()

    async def scenario(hub: Hub, store: Store) -> None:
        groups, overview = Reader(hub, address=Address("/groups")), Reader(hub)
        for reader in (groups, overview):
            assert (await reader.event())[0] == "page"
        store.away = OperationalError("select", {}, OSError("the disk is gone"))
        store.html = "<p>groups, and that the store is away</p>"
        name, said = await groups.event()
        assert (name, said["html"]) == ("page", store.html)
        assert (await overview.event())[0] == "stale"

    running(scenario)


def test_a_page_that_fails_does_not_end_the_others(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario(hub: Hub, store: Store) -> None:
        reader = Reader(hub)
        await reader.event()
        store.fails = ZeroDivisionError("a fault of ours")
        name, said = await reader.event()
        assert name == "stale"
        assert "a fault of ours" not in said["reason"]

    running(scenario)
    assert "a fault of ours" in caplog.text


@pytest.mark.slow
def test_nothing_is_done_without_viewers() -> None:
    async def scenario(hub: Hub, store: Store) -> None:
        reader = Reader(hub)
        await reader.event()
        await reader.close()
        await asyncio.sleep(0.2)
        before = store.looks
        await asyncio.sleep(0.3)
        assert (store.looks, len(hub)) == (before, 0)
        again = Reader(hub)
        assert (await again.event())[0] == "page"

    running(scenario)


def test_streams_end_when_the_server_stops() -> None:
    """Also where the stop comes from another thread, as it does in a server."""

    async def scenario(hub: Hub, store: Store) -> None:
        readers = [Reader(hub) for _ in range(3)]
        for reader in readers:
            await reader.event()
        waiting = [asyncio.ensure_future(reader.event()) for reader in readers]
        await asyncio.sleep(0.01)
        threading.Thread(target=hub.stop).start()
        done, _ = await asyncio.wait(waiting, timeout=20)
        assert all(isinstance(one.exception(), StopAsyncIteration) for one in done)
        assert len(done) == 3

    running(scenario)


def test_a_stream_ends_when_its_reader_has_gone() -> None:
    async def scenario(hub: Hub, store: Store) -> None:
        reader = Reader(hub)
        await reader.event()
        asyncio.get_running_loop().call_later(0.01, reader.gone.set_result, None)
        with pytest.raises(StopAsyncIteration):
            await reader.event()

    running(scenario)


def test_a_reader_that_stops_reading_holds_nothing_up() -> None:
    async def scenario(hub: Hub, store: Store) -> None:
        slow, quick = Reader(hub), Reader(hub)
        await slow.event()
        await quick.event()
        for number in range(3):
            store.change(f"<p>{number}</p>")
            assert (await quick.event())[1]["html"] == f"<p>{number}</p>"
        assert (await slow.event())[1]["html"] == "<p>2</p>"

    feeds = Feeds()
    feeds.quick_s = lambda: 0.0  # type: ignore[method-assign]
    running(scenario, feeds)


def test_there_is_a_limit() -> None:
    async def scenario(hub: Hub, store: Store) -> None:
        Reader(hub)
        with pytest.raises(TooManyViewersError):
            Reader(hub)

    running(scenario, Feeds(most_viewers=1))
