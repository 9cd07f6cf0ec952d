"""A TCP proxy that makes the faults of a network on request.

::

    client ──► FlakyProxy.address ──► target
           ◄── delay, cut, half-close, black hole, corruption ◄──

It knows nothing of the protocol it carries, so it works before a broker and before
ZooKeeper. A broker sends its clients its own address: have it advertise the proxy::

    with FlakyProxy() as proxy, ScriptedBroker(advertised=proxy.address) as broker:
        proxy.target = broker.address
        proxy.black_hole()
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import struct
from dataclasses import dataclass, field
from typing import Final, Literal, Self

from tallymark.client.core.io_thread import IoThread
from tallymark.closing import ClosedByWith
from tallymark.net.addresses import parse_address
from tallymark.net.limits.accept_queue import close_listener
from tallymark.processes.free_ports import free_ports

Direction = Literal["both", "to_target", "to_client"]
_CHUNK: Final = 64 * 1024
_STALL_STEP: Final = 0.01
_TURNS: Final = 5
_RESET: Final = struct.pack("ii", 1, 0)
"""SO_LINGER on for no time at all: close() sends RST, as the kernel does for a killed peer."""


@dataclass
class _Way:
    """What is done to the bytes of one direction, on all connections."""

    delay: float = 0.0
    swallow: bool = False
    stall: bool = False
    corrupt: int = 0
    cut_after: int | None = None
    passed: int = 0


@dataclass(eq=False)
class _Link:
    client: asyncio.StreamWriter
    target: asyncio.StreamWriter | None = None
    tasks: list[asyncio.Task[None]] = field(default_factory=list[asyncio.Task[None]])


class FlakyProxy(ClosedByWith):
    """See the module. Faults hold for present and later connections until :meth:`heal`; ``cut``
    and ``half_close`` happen once. All methods are for the test's thread."""

    def __init__(self, target: str = "") -> None:
        self.target = target
        """``host:port`` of where new connections lead."""
        self.accepted = 0
        """Connections so far."""
        self._to_target = _Way()
        self._to_client = _Way()
        self._links: set[_Link] = set()
        self._carriers: set[asyncio.Task[None]] = set()
        self._io = IoThread("flaky proxy")
        self._server: asyncio.Server | None = None
        self._port = free_ports(1)[0]

    @property
    def address(self) -> str:
        """``host:port`` to connect to; the same after :meth:`refuse` and :meth:`listen`."""
        return f"127.0.0.1:{self._port}"

    @property
    def open(self) -> int:
        """Connections that are open now."""
        return len(self._links)

    @property
    def passed(self) -> tuple[int, int]:
        """Bytes that were let through to the target and to clients."""
        return self._to_target.passed, self._to_client.passed

    # -- faults -------------------------------------------------------------------------------

    def delay(self, seconds: float, direction: Direction = "both") -> None:
        """Every piece of data takes so much longer."""
        for way in self._ways(direction):
            way.delay = seconds

    def black_hole(self, direction: Direction = "both") -> None:
        """Take all bytes, pass none on, close nothing: as when a cable is out or a firewall
        forgets."""
        for way in self._ways(direction):
            way.swallow = True

    def stall(self, direction: Direction = "to_target") -> None:
        """Read no more, as a peer that hangs: bytes fill the buffers, then their sender waits."""
        for way in self._ways(direction):
            way.stall = True

    def corrupt(self, pieces: int = 1, direction: Direction = "to_client") -> None:
        """Turn a bit in the last byte of so many of the next pieces of data."""
        for way in self._ways(direction):
            way.corrupt = pieces

    def cut_after(self, count: int, direction: Direction = "to_client") -> None:
        """Let ``count`` more bytes through, then reset that connection: once."""
        for way in self._ways(direction):
            way.cut_after = count

    def cut(self) -> None:
        """Reset every connection there is."""
        self._io.run(self._cut(), 10)

    def half_close(self) -> None:
        """Send a FIN to every client, and go on reading what it sends."""
        self._io.run(self._half_close(), 10)

    def refuse(self) -> None:
        """Accept no new connection."""
        self._io.run(self._stop_listening(), 10)

    def listen(self) -> None:
        """Accept connections again."""
        self._io.run(self._listen(), 10)

    def heal(self) -> None:
        """No more faults; what was swallowed stays lost, so better :meth:`cut` as well."""
        self._to_target = _Way(passed=self._to_target.passed)
        self._to_client = _Way(passed=self._to_client.passed)

    def close(self) -> None:
        """End everything."""
        self._io.finish(self._end(), 10)
        self._io.stop()

    def __enter__(self) -> Self:
        self.listen()
        return self

    # -- in the I/O thread --------------------------------------------------------------------

    def _ways(self, direction: Direction) -> list[_Way]:
        ways = {"to_target": [self._to_target], "to_client": [self._to_client]}
        return ways.get(direction, [self._to_target, self._to_client])

    async def _listen(self) -> None:
        if self._server is None:
            self._server = await asyncio.start_server(self._accept, "127.0.0.1", self._port)

    async def _stop_listening(self) -> None:
        server, self._server = self._server, None
        if server is None:
            return
        await close_listener(server)

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.accepted += 1
        link = _Link(writer)
        self._links.add(link)
        task = asyncio.create_task(self._carry(link, reader))
        self._carriers.add(task)
        task.add_done_callback(self._carriers.discard)

    async def _carry(self, link: _Link, reader: asyncio.StreamReader) -> None:
        try:
            host, port = parse_address(self.target)
            back, link.target = await asyncio.open_connection(host, port)
            link.tasks = [
                asyncio.create_task(self._pump(link, reader, link.target, to_client=False)),
                asyncio.create_task(self._pump(link, back, link.client, to_client=True)),
            ]
            await asyncio.wait(link.tasks)
        except OSError:
            pass  # the target is not there
        finally:
            self._reset(link)

    async def _pump(
        self,
        link: _Link,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        *,
        to_client: bool,
    ) -> None:
        with contextlib.suppress(OSError):
            while data := await self._read(reader, to_client):
                way = self._way(to_client)
                if way.delay:
                    await asyncio.sleep(way.delay)
                if way.swallow:
                    continue
                if way.corrupt:
                    way.corrupt -= 1
                    data = data[:-1] + bytes([data[-1] ^ 1])
                if way.cut_after is not None and len(data) >= way.cut_after:
                    data, way.cut_after = data[: way.cut_after], None
                    way.passed += len(data)
                    writer.write(data)
                    await writer.drain()
                    self._reset(link)
                    return
                if way.cut_after is not None:
                    way.cut_after -= len(data)
                way.passed += len(data)
                writer.write(data)
                await writer.drain()
            if writer.can_write_eof():
                writer.write_eof()

    async def _read(self, reader: asyncio.StreamReader, to_client: bool) -> bytes:
        while self._way(to_client).stall:
            await asyncio.sleep(_STALL_STEP)
        return await reader.read(_CHUNK)

    def _way(self, to_client: bool) -> _Way:
        return self._to_client if to_client else self._to_target

    async def _cut(self) -> None:
        for link in list(self._links):
            self._reset(link)

    async def _half_close(self) -> None:
        for link in self._links:
            if link.client.can_write_eof():
                link.client.write_eof()

    def _reset(self, link: _Link) -> None:
        self._links.discard(link)
        for writer in (link.client, link.target):
            if writer is not None:
                sock: socket.socket = writer.get_extra_info("socket")
                with contextlib.suppress(OSError):
                    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
                writer.transport.abort()
        for task in link.tasks:
            if task is not asyncio.current_task():
                task.cancel()

    async def _end(self) -> None:
        await self._stop_listening()
        carriers = list(self._carriers)
        for carrier in carriers:
            carrier.cancel()
        await asyncio.gather(*carriers, return_exceptions=True)
        await self._cut()  # those that had not begun
        for _ in range(_TURNS):  # sockets are closed in the next turns of the loop
            await asyncio.sleep(0)
