"""Connections, cuts and half-open connections; ZooKeeper's sessions behind a cut; the disk."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

import pytest

from tallymark.coordination import SessionState, ZooKeeper
from tallymark.errors import ConnectError
from tallymark.testing.simulation.disk import SimulatedDisk
from tallymark.testing.simulation.engine.chances import Chances
from tallymark.testing.simulation.engine.jobs import Jobs
from tallymark.testing.simulation.engine.loop import SimulatedLoop
from tallymark.testing.simulation.engine.process import Process
from tallymark.testing.simulation.engine.sealed import sealed
from tallymark.testing.simulation.network import GIVE_UP_SECONDS, Network
from tallymark.testing.simulation.zookeeper import HOST, SimulatedZooKeeper

SERVER, CLIENT = "10.0.0.1", "10.0.0.2"


class Bench:
    """Two hosts and a ZooKeeper."""

    def __init__(self) -> None:
        self.loop = SimulatedLoop(Chances(1), most_steps=200_000)
        self.jobs = Jobs(self.loop)
        self.network = Network(self.loop)
        self.zookeeper = SimulatedZooKeeper(self.jobs, self.network)
        self.server, self.client = Process("server", SERVER), Process("client", CLIENT)

    def task(self, process: Process, work: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        """``work`` in a process."""
        return self.loop.create_task(work, context=process.context)

    def run(self, main: Coroutine[Any, Any, Any]) -> Any:
        """``main`` to its end."""
        with sealed(self.jobs):
            try:
                return self.loop.run_simulation(main)
            finally:
                self.server.kill()
                self.client.kill()
                self.loop.close()

    async def pair(self) -> tuple[Talker, Talker]:
        """Both sides of a connection."""
        accepted: asyncio.Future[Talker] = self.loop.create_future()

        async def listen() -> None:
            await self.loop.create_server(lambda: Talker(accepted), SERVER, 9092)

        async def dial() -> Talker:
            _, talker = await self.loop.create_connection(Talker, SERVER, 9092)
            found: Talker = talker
            return found

        await self.task(self.server, listen())
        return await self.task(self.client, dial()), await accepted


class Talker(asyncio.Protocol):
    """Keeps what it hears."""

    transport: asyncio.Transport

    def __init__(self, made: asyncio.Future[Talker] | None = None) -> None:
        self.heard = b""
        self.lost: Exception | str = "no"
        self._made = made

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport
        if self._made is not None:
            self._made.set_result(self)

    def data_received(self, data: bytes) -> None:
        self.heard += data

    def connection_lost(self, exc: Exception | None) -> None:
        self.lost = exc or "closed"


def test_bytes_arrive_in_order_and_whole() -> None:
    bench = Bench()
    pieces = [bytes([number % 256]) * (number % 70) for number in range(300)]

    async def main() -> None:
        ours, theirs = await bench.pair()
        for piece in pieces:
            ours.transport.write(piece)
        ours.transport.close()
        await asyncio.sleep(5)
        assert theirs.heard == b"".join(pieces)
        assert (ours.lost, theirs.lost) == ("closed", "closed")

    bench.run(main())


def test_what_a_cut_holds_arrives_when_it_heals() -> None:
    bench = Bench()

    async def main() -> None:
        ours, theirs = await bench.pair()
        bench.network.cut(CLIENT, SERVER)
        ours.transport.write(b"one way")
        theirs.transport.write(b"the other")
        await asyncio.sleep(GIVE_UP_SECONDS / 2)
        assert (theirs.heard, ours.heard) == (b"", b"the other")
        bench.network.heal(CLIENT, SERVER)
        await asyncio.sleep(1)
        assert theirs.heard == b"one way"

    bench.run(main())


def test_a_sender_gives_up_and_its_peer_does_not_know() -> None:
    bench = Bench()

    async def main() -> None:
        ours, theirs = await bench.pair()
        bench.network.cut(CLIENT, SERVER)
        ours.transport.write(b"lost")
        await asyncio.sleep(GIVE_UP_SECONDS * 2)
        assert isinstance(ours.lost, TimeoutError)
        assert theirs.lost == "no"

    bench.run(main())


def test_a_killed_process_resets_its_connections_and_frees_its_port() -> None:
    bench = Bench()

    async def main() -> None:
        ours, _ = await bench.pair()
        bench.server.kill()
        await asyncio.sleep(1)
        assert isinstance(ours.lost, ConnectionResetError)
        with pytest.raises(ConnectionRefusedError):
            await bench.task(bench.client, bench.loop.create_connection(Talker, SERVER, 9092))

    bench.run(main())


def test_a_slow_reader_holds_the_writer_up() -> None:
    bench = Bench()

    async def main() -> None:
        ours, theirs = await bench.pair()
        theirs.transport.pause_reading()
        ours.transport.write(b"x" * 1_000_000)
        await asyncio.sleep(1)
        assert ours.transport.get_write_buffer_size() == 1_000_000
        theirs.transport.resume_reading()
        await asyncio.sleep(1)
        assert ours.transport.get_write_buffer_size() == 0
        assert len(theirs.heard) == 1_000_000

    bench.run(main())


def session_of(bench: Bench) -> ZooKeeper:
    """A session of the server's process, not started."""
    client = bench.zookeeper.client_of(bench.server)
    return ZooKeeper("simulated:1", "/c", 4000, command_timeout_ms=500, client=client)


def test_a_session_is_suspended_then_lost_behind_a_cut() -> None:
    bench, states = Bench(), list[SessionState]()

    async def live() -> None:
        session = session_of(bench)
        await asyncio.to_thread(lambda: session.start(create_root=True))
        session.listen(lambda event: states.append(event.state))
        await asyncio.to_thread(lambda: session.create("/here", b"", ephemeral=True))
        bench.network.cut(SERVER, HOST)
        await asyncio.sleep(3.5)
        assert states == [SessionState.SUSPENDED]
        assert bench.zookeeper.ensemble.tree.exists("/c/here")
        with pytest.raises(ConnectError):
            await asyncio.to_thread(lambda: session.read("/here"))
        await asyncio.sleep(4)
        assert not bench.zookeeper.ensemble.tree.exists("/c/here")
        bench.network.heal(SERVER, HOST)
        await asyncio.sleep(2)
        assert states[1:] == [SessionState.LOST, SessionState.CONNECTED]

    async def main() -> None:
        await bench.task(bench.server, live())

    bench.run(main())


def test_an_answer_may_be_lost_after_the_commit() -> None:
    bench = Bench()

    async def live() -> None:
        session = session_of(bench)
        await asyncio.to_thread(lambda: session.start(create_root=True))
        bench.zookeeper.lose_answers = 1.0
        with pytest.raises(ConnectError):
            await asyncio.to_thread(lambda: session.create("/done", b"x"))
        bench.zookeeper.lose_answers = 0.0
        node = await asyncio.to_thread(lambda: session.find("/done"))
        assert node is not None
        assert node.data == b"x"

    async def main() -> None:
        await bench.task(bench.server, live())

    bench.run(main())


def test_what_is_written_during_a_sync_is_not_synced_by_it() -> None:
    bench = Bench()

    async def live() -> None:
        disk = SimulatedDisk(bench.jobs, bench.loop.chances.of("disk"))
        file = disk.open("/a")
        file.append(b"before")
        syncing = asyncio.ensure_future(asyncio.to_thread(file.handle.sync))
        while not disk.syncs:
            await asyncio.sleep(0.0001)
        file.append(b" and during")
        await syncing
        assert disk.durable("/a") == b"before"
        file.handle.sync()
        assert disk.durable("/a") == b"before and during"

    async def main() -> None:
        await bench.task(bench.server, live())

    bench.run(main())


def test_a_full_disk_takes_what_fits() -> None:
    bench = Bench()
    disk = SimulatedDisk(bench.jobs, bench.loop.chances.of("disk"))
    file = disk.open("/a")
    disk.fill(3)
    with pytest.raises(OSError, match="No space left"):
        file.append(b"four")
    assert disk.content("/a") == b"fou"
    disk.calm()
    file.append(b"r")
    assert disk.content("/a") == b"four"
    bench.loop.close()


def test_a_crash_of_a_process_that_has_ended_writes_nothing() -> None:
    """The story: a kill was to come in the middle of the broker's work on the disk, but it stopped
    before. The next broker's batch was torn by it and then written whole behind that, and a reader
    got a record that ran into the next batch."""
    bench = Bench()
    disk = SimulatedDisk(bench.jobs, bench.loop.chances.of("disk"))
    file = disk.open("/a")
    crashes: list[str] = []
    disk.crash_in(0, lambda: crashes.append("crashed"), applies=lambda: False)
    file.append(b"whole")
    file.append(b" and once")
    assert (disk.content("/a"), crashes) == (b"whole and once", [])
    bench.loop.close()
