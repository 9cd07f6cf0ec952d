"""The stream wakes a page when the store changed, and only then."""

import asyncio

import pytest

from tallymark_audit.store import Store
from tallymark_audit.store.schema.tables import incidents
from tallymark_dashboards import live
from tallymark_dashboards.live import Changes


def add_incident(store: Store) -> None:
    with store.write() as connection:
        connection.execute(incidents.insert().values(cluster="dc1", kind="truncated", at=1))


def test_a_change_is_told_once(filled: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live, "POLL_SECONDS", 0.01)

    async def run() -> None:
        changes = Changes(filled)
        events = changes.events(await changes.marker())
        assert (await anext(events)).comment == "live"
        asyncio.get_running_loop().call_later(0.05, add_incident, filled)
        event = await asyncio.wait_for(anext(events), 5)
        assert (event.event, event.id) == ("changed", await changes.marker())
        changes.stopping.set()
        with pytest.raises(StopAsyncIteration):
            await asyncio.wait_for(anext(events), 5)

    asyncio.run(run())


def test_a_page_with_an_old_marker_is_woken_at_once(filled: Store) -> None:
    async def run() -> None:
        events = Changes(filled).events("0-0-0-0-0")
        await anext(events)
        assert (await asyncio.wait_for(anext(events), 5)).event == "changed"
        await events.aclose()  # type: ignore[attr-defined]  # an async generator has it

    asyncio.run(run())
