"""The database fails under a running node: reads from memory go on, changes are refused with a 503,
and nothing has to be restarted afterwards."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from memory_store import MemoryStore
from sqlalchemy import create_engine, event, text
from sqlalchemy.engine import make_url

from tallymark_schema_registry import errors
from tallymark_schema_registry.catalog.subject import Subject
from tallymark_schema_registry.decisions.commands import Sent
from tallymark_schema_registry.errors import RegistryError
from tallymark_schema_registry.node import writer
from tallymark_schema_registry.node.registry import Registry
from tallymark_schema_registry.store.opening import open_store
from tallymark_schema_registry.store.sql_store import SqlStore
from tallymark_schema_registry.store.turn import SqlTurn

S = Subject(".", "s")


@asynccontextmanager
async def running(store: SqlStore | MemoryStore) -> AsyncIterator[Registry]:
    registry = Registry(store)
    await registry.start()
    try:
        yield registry
    finally:
        await registry.close()


async def refused(awaitable: Any) -> RegistryError:
    with pytest.raises(RegistryError) as error:
        await awaitable
    return error.value


async def until(happens: Callable[[], bool]) -> None:
    async with asyncio.timeout(20):
        while not happens():
            await asyncio.sleep(0.01)


def test_postgresql_goes_away_and_comes_back(postgres: str) -> None:
    name = make_url(postgres).database
    admin = create_engine(make_url(postgres).set(database="postgres"), isolation_level="AUTOCOMMIT")

    def let(allowed: str) -> None:
        with admin.connect() as connection:
            connection.execute(text(f"ALTER DATABASE {name} ALLOW_CONNECTIONS {allowed}"))
            connection.execute(
                text(
                    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = :name"
                ),
                {"name": name},
            )

    async def main() -> None:
        async with running(open_store(postgres)) as node:
            first = await node.register(S, Sent('"int"'))
            await asyncio.to_thread(let, "false")
            error = await refused(node.register(Subject(".", "t"), Sent('"string"')))
            assert (error.status, error.code) == (503, 50001)
            # What memory has is answered, an id that it does not know is not said to be missing.
            assert await node.version(S, "latest") == first
            assert (await node.by_id(".", 1)).content == first.content
            assert await node.versions(S) == [1]
            assert (await refused(node.by_id(".", 2))).status == 503
            assert (await refused(node.ping())).status == 503
            assert await node.register(S, Sent('"int"')) == first
            # What would change nothing by memory may change something by the store, and what would
            # be refused may be right.
            assert (await refused(node.delete_mode(S))).status == 503
            assert (await refused(node.set_mode(S, "READWRITE"))).status == 503
            assert (await refused(node.register(S, Sent("{")))).status == 503
            await asyncio.to_thread(let, "true")
            await until(lambda: not node.store_is_down)
            assert (await node.register(Subject(".", "t"), Sent('"string"'))).schema_id == 2
            await node.ping()

    try:
        asyncio.run(main())
    finally:
        admin.dispose()


def test_a_full_disk(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """SQLite says so at the insert: nothing is written, and reads go on."""
    store = open_store(f"sqlite:///{tmp_path / 'registry.db'}")
    pages = 1_000_000

    def limit(connection: Any, *_: object) -> None:
        connection.execute(f"PRAGMA max_page_count = {pages}").close()

    event.listen(store._engine, "checkout", limit)
    big = f'{{"type":"enum","name":"E","symbols":["A"],"doc":"{"x" * 200_000}"}}'

    async def main() -> None:
        nonlocal pages
        async with running(store) as node:
            first = await node.register(S, Sent('"int"'))
            pages = 30
            error = await refused(node.register(Subject(".", "t"), Sent(big)))
            assert (error.status, error.code) == (503, 50001)
            assert await node.version(S, "latest") == first
            assert await node.subjects() == ["s"]
            assert (await refused(node.by_id(".", 2))).code == 40403
            pages = 1_000_000
            assert (await node.register(Subject(".", "t"), Sent(big))).schema_id == 2

    with caplog.at_level(logging.WARNING):
        asyncio.run(main())
    told = [record.getMessage() for record in caplog.records]
    assert len(told) == 2
    assert "until they can be stored again: database or disk is full; make room" in told[0]
    assert "stored again" in told[1]


class Losing:
    """``lost`` times the connection breaks at COMMIT; ``stored`` says whether the server has got
    it."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, stored: bool) -> None:
        self.lost = 0
        commit = SqlTurn.commit

        def losing(turn: SqlTurn) -> None:
            if not self.lost:
                commit(turn)
                return
            self.lost -= 1
            if stored:
                commit(turn)
            raise OSError("the connection is lost")

        monkeypatch.setattr(SqlTurn, "commit", losing)


@pytest.mark.parametrize("stored", [True, False])
def test_a_connection_lost_at_commit(
    database: str, stored: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whether it was stored is looked up before anything is answered: a deletion that was stored is
    not answered with "was soft deleted", and one that was not is done again."""

    async def main() -> None:
        store = Losing(monkeypatch, stored)
        async with running(open_store(database)) as node:
            await node.register(S, Sent('"int"'))
            number = node.catalog.number
            store.lost = 1
            assert await node.delete_version(S, "1") == 1
            store.lost = 1
            assert (await node.register(S, Sent('"int"'))).version == 2
            # Deleted; removed, since a new version stands for it; added.
            assert node.catalog.number == number + 3
            assert [change["number"] for change in await node.changes(0)] == [1, 2, 3, 4, 5]

    asyncio.run(main())


def test_a_connection_that_is_lost_again_and_again_ends_in_a_503(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def main() -> None:
        Losing(monkeypatch, stored=False).lost = 1_000
        async with running(open_store(f"sqlite:///{tmp_path / 'registry.db'}")) as node:
            error = await refused(node.register(S, Sent('"int"')))
            assert (error.status, error.code) == (503, 50001)

    asyncio.run(main())


class Stalls(MemoryStore):
    """Transactions take as long as the test wants."""

    loop: asyncio.AbstractEventLoop

    def __init__(self) -> None:
        super().__init__()
        self.goes_on = asyncio.Event()
        self.batches: list[int] = []

    def append(self, after: int, changes: Any, texts: Any = ()) -> None:
        asyncio.run_coroutine_threadsafe(self.goes_on.wait(), self.loop).result(30)
        self.batches.append(len(changes))
        super().append(after, changes, texts)


def stalling() -> Stalls:
    store = Stalls()
    store.loop = asyncio.get_running_loop()
    return store


def test_what_waits_is_stored_by_one_transaction() -> None:
    async def main() -> None:
        store = stalling()
        async with running(store) as node:
            asked = [
                asyncio.create_task(
                    node.register(
                        Subject(".", f"s{n}"),
                        Sent(f'{{"type":"enum","name":"E{n}","symbols":["A"]}}'),
                    )
                )
                for n in range(50)
            ]
            await until(lambda: node.writes_waiting == 50)
            store.goes_on.set()
            views = await asyncio.gather(*asked)
            assert sorted(view.schema_id for view in views) == list(range(1, 51))
            # The first one, and all that came while it was written.
            assert len(store.batches) <= 3

    asyncio.run(main())


def test_only_so_many_changes_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writer, "MAX_WAITING", 5)

    async def main() -> None:
        store = stalling()
        async with running(store) as node:
            asked = [
                asyncio.create_task(node.set_mode(Subject(".", f"s{n}"), "READONLY"))
                for n in range(20)
            ]
            results = asyncio.gather(*asked, return_exceptions=True)
            await until(lambda: sum(task.done() for task in asked) >= 14)
            store.goes_on.set()
            found = [one.status for one in await results if isinstance(one, RegistryError)]
            assert set(found) == {errors.busy("").status}
            assert 14 <= len(found) <= 15

    asyncio.run(main())


def test_a_change_that_waits_too_long_is_answered(monkeypatch: pytest.MonkeyPatch) -> None:
    """What waited behind it, and was not begun, is not done either."""
    monkeypatch.setattr(writer, "DEADLINE_S", 0.2)

    async def main() -> None:
        store = stalling()
        async with running(store) as node:
            asked = [
                asyncio.create_task(refused(node.set_mode(S, mode)))
                for mode in ("READONLY", "READWRITE")
            ]
            for one in asked:
                assert ((await one).status, (await one).code) == (500, 50002)
            store.goes_on.set()
            await until(lambda: node.writes_waiting == 0)
            assert await node.mode(S) == "READONLY"
            assert len(await node.changes(0)) == 1

    asyncio.run(main())


def test_one_command_that_cannot_be_stored_does_not_take_others_with_it() -> None:
    class Chokes(Stalls):
        def append(self, after: int, changes: Any, texts: Any = ()) -> None:
            asyncio.run_coroutine_threadsafe(self.goes_on.wait(), self.loop).result(30)
            if any(change.by == "poison" for change in changes):
                raise ValueError("it cannot be written")
            MemoryStore.append(self, after, changes, texts)

    async def main() -> None:
        store = Chokes()
        store.loop = asyncio.get_running_loop()
        async with running(store) as node:
            asked = [
                asyncio.create_task(
                    node.register(
                        Subject(".", f"s{n}"),
                        Sent(f'{{"type":"enum","name":"E{n}","symbols":["A"]}}'),
                        by="poison" if n == 3 else "",
                    )
                )
                for n in range(6)
            ]
            await until(lambda: node.writes_waiting == 6)
            store.goes_on.set()
            results = await asyncio.gather(*asked, return_exceptions=True)
            assert [isinstance(one, ValueError) for one in results] == [
                False,
                False,
                False,
                True,
                False,
                False,
            ]
            assert len(await node.subjects()) == 5

    asyncio.run(main())
