"""A proxy before the brokers of a cluster that speaks Kafka's protocol and makes faults in Produce
requests. It has a gate, a port, for each broker::

    sender ──frames──► gate 0 ─► requests ──FaultInjector──► broker 0
           ◄─frames───────────── answers, in the order of the requests ◄──
           ──frames──► gate 1 ─► ...

It runs as a process of its own (``python -m tallymark_audit.proof.drill.faults.proxy CONFIG``):
what it does is in a sealed file, not in the drill's memory. CONFIG is JSON: ``gates`` (of each
``node``, the broker's id, ``target``, host:port, and ``port``), ``hop``, ``seed``, ``orders`` and
``sealed`` (files); before a consumer also the ``topic`` that it reads. Orders may change at any
time.

Answers that name brokers name the gates instead, so a client that came here stays here. Plaintext:
the drill's clusters are so.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import random
import signal
import sys
from collections import deque
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from tallymark.clock import now_ms
from tallymark.errors import ProtocolError
from tallymark.net.addresses import parse_address
from tallymark.processes.process import configure_logging, die_with_parent
from tallymark.protocol.api import ApiKey
from tallymark.protocol.codec import decode
from tallymark.protocol.frames import (
    FrameBuffer,
    RequestHeader,
    decode_request_header,
    decode_response,
    encode_request,
    encode_response,
)
from tallymark.protocol.messages import (
    REQUEST_CLASSES,
    FetchRequest,
    ProduceRequest,
    ProduceResponse,
)
from tallymark.protocol.topic_partition import TopicPartition
from tallymark_audit.proof.drill.faults import kinds
from tallymark_audit.proof.drill.faults.fault_injector import (
    FaultInjector,
    Passage,
    data_batches,
    swapped,
    with_feigned,
)
from tallymark_audit.proof.drill.faults.ground_truth import FaultNote, GroundTruthWriter
from tallymark_audit.proof.drill.faults.kinds import read_orders
from tallymark_audit.proof.drill.faults.redirect import REDIRECTED, redirected

log: Final = logging.getLogger("drill.proxy")

_LOOK_SECONDS: Final = 0.1
_PARTNER_SECONDS: Final = 0.3
"""How long a request waits for the one it changes places with."""
_CHUNK: Final = 256 * 1024
_LOWEST_PRODUCE: Final = 3


@dataclass(slots=True)
class _Slot:
    """A request whose answer is owed, in the order of the requests. ``ready``: the answer's frame,
    once it is there; ``silent``: the response is thrown away."""

    header: RequestHeader
    ready: bytes | None = None
    feigned: list[TopicPartition] = field(default_factory=list[TopicPartition])
    silent: bool = False
    hang_up: bool = False


@dataclass(slots=True, eq=False)
class _Link:
    client: asyncio.StreamWriter
    target: asyncio.StreamWriter
    frames: asyncio.Queue[memoryview] = field(default_factory=asyncio.Queue[memoryview])
    slots: deque[_Slot] = field(default_factory=deque[_Slot])


class Proxy:
    """See the module."""

    def __init__(self, config: dict[str, Any]) -> None:
        self._targets = {gate["port"]: gate["target"] for gate in config["gates"]}
        self._ports = {gate["node"]: gate["port"] for gate in config["gates"]}
        self._topic: str = config.get("topic", "")
        self._orders = Path(config["orders"])
        self._ground_truth = GroundTruthWriter(Path(config["sealed"]))
        self._injector = FaultInjector(config["hop"], random.Random(config["seed"]))
        self._links: set[asyncio.Task[None]] = set()
        self._told: set[str] = set()

    async def run(self, stopped: asyncio.Event) -> None:
        """Serve until stopped."""
        servers = [await self._open(*gate) for gate in self._targets.items()]
        log.info("ready")
        looking = asyncio.create_task(self._look())
        await stopped.wait()
        looking.cancel()
        for server in servers:
            server.close()
        for link in list(self._links):
            link.cancel()
        await asyncio.gather(looking, *self._links, return_exceptions=True)
        self._ground_truth.close()

    async def _look(self) -> None:
        """Notice new orders."""
        while True:
            self._injector.orders = read_orders(self._orders)
            await asyncio.sleep(_LOOK_SECONDS)

    async def _open(self, port: int, broker: str) -> asyncio.Server:
        def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            task = asyncio.create_task(self._carry(broker, reader, writer))
            self._links.add(task)
            task.add_done_callback(self._links.discard)

        return await asyncio.start_server(accept, "127.0.0.1", port)

    async def _carry(
        self, broker: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        tasks: list[asyncio.Task[None]] = []
        link = None
        try:
            back, target = await asyncio.open_connection(*parse_address(broker))
            link = _Link(writer, target)
            tasks = [
                asyncio.create_task(self._read_client(link, reader)),
                asyncio.create_task(self._pass_on(link)),
                asyncio.create_task(self._read_target(link, back)),
            ]
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                self._tell(task)
        except OSError:
            pass  # the broker is not there: the client learns it by the closed connection
        finally:
            for task in tasks:
                task.cancel()
            writer.transport.abort()
            if link is not None:
                link.target.transport.abort()

    @staticmethod
    def _tell(task: asyncio.Task[None]) -> None:
        error = task.exception()
        if error is not None and not isinstance(error, OSError):
            log.error("a connection ended by %r", error)

    # -- from the client ------------------------------------------------------------------------

    async def _read_client(self, link: _Link, reader: asyncio.StreamReader) -> None:
        frames = FrameBuffer()
        while data := await reader.read(_CHUNK):
            for frame in frames.receive(data):
                link.frames.put_nowait(frame)

    async def _pass_on(self, link: _Link) -> None:
        while True:
            await self._request(link, await link.frames.get())

    async def _request(self, link: _Link, frame: memoryview) -> None:
        header, start = decode_request_header(frame)
        request = _produce(header, frame, start)
        if request is None:
            link.slots.append(_Slot(header))
            link.target.write(len(frame).to_bytes(4, "big") + bytes(frame))
            await link.target.drain()
        elif self._injector.reorders(request, now_ms()):
            await self._change_places(link, header, request)
        else:
            await self._produce(link, header, request)

    async def _change_places(
        self, link: _Link, header: RequestHeader, request: ProduceRequest
    ) -> None:
        """Wait for the next request; when it produces too, their batches change places."""
        try:
            frame = await asyncio.wait_for(link.frames.get(), _PARTNER_SECONDS)
        except TimeoutError:
            await self._produce(link, header, request)
            return
        next_header, start = decode_request_header(frame)
        other = _produce(next_header, frame, start)
        if other is None:
            await self._produce(link, header, request)
            await self._request(link, frame)
            return
        found = data_batches(request)
        self._note(self._injector.notes(kinds.REORDER, now_ms(), found))
        request, other = swapped(request, other)
        await self._produce(link, header, request)
        await self._produce(link, next_header, other)

    async def _produce(self, link: _Link, header: RequestHeader, request: ProduceRequest) -> None:
        passage = self._injector.inject(request, now_ms())
        self._note(passage.notes)
        if passage.delay:
            await asyncio.sleep(passage.delay)
        if request.acks == 0:
            link.slots.extend(())  # no response is expected
        else:
            link.slots.append(_slot(header, passage))
        if passage.request is not None:
            self._send(link, header, passage.request)
        for extra in passage.extra:
            if request.acks:
                link.slots.append(_Slot(header, silent=True))
            self._send(link, header, extra)
        await link.target.drain()
        self._flush(link)

    @staticmethod
    def _send(link: _Link, header: RequestHeader, request: ProduceRequest) -> None:
        link.target.write(
            encode_request(request, header.api_version, header.correlation_id, header.client_id)
        )

    def _note(self, notes: list[FaultNote]) -> None:
        """Seal what was done. That a kind of fault has hit at all is no secret: the drill goes on
        until each has."""
        self._ground_truth.write(notes)
        for kind in sorted({note.kind for note in notes} - self._told):
            self._told.add(kind)
            log.info("first %s", kind)

    # -- from the broker ------------------------------------------------------------------------

    async def _read_target(self, link: _Link, reader: asyncio.StreamReader) -> None:
        frames = FrameBuffer()
        while data := await reader.read(_CHUNK):
            for frame in frames.receive(data):
                slot = next(slot for slot in link.slots if slot.ready is None)
                slot.ready = self._answer(slot, frame)
            self._flush(link)
            await link.client.drain()

    def _answer(self, slot: _Slot, frame: memoryview) -> bytes:
        key, version = ApiKey(slot.header.api_key), slot.header.api_version
        if slot.feigned:
            number, answer = decode_response(frame, ProduceRequest, version)
            answer = redirected(with_feigned(answer, slot.feigned), self._ports)
            return encode_response(answer, version, number)
        if key is ApiKey.FETCH and self._topic:
            number, fetched = decode_response(frame, FetchRequest, version)
            fetched = self._injector.inject_into_fetch(fetched, self._topic, now_ms())
            self._note(self._injector.taken)
            self._injector.taken.clear()
            return encode_response(redirected(fetched, self._ports), version, number)
        if key in REDIRECTED:
            number, found = decode_response(frame, REQUEST_CLASSES[key], version)
            return encode_response(redirected(found, self._ports), version, number)
        return len(frame).to_bytes(4, "big") + bytes(frame)

    def _flush(self, link: _Link) -> None:
        """Give the client the answers that are its turn."""
        while link.slots and link.slots[0].ready is not None:
            slot = link.slots.popleft()
            if slot.hang_up:
                link.client.transport.abort()
                return
            if not slot.silent:
                link.client.write(slot.ready or b"")


def _slot(header: RequestHeader, passage: Passage) -> _Slot:
    if passage.request is not None:
        return _Slot(header, feigned=passage.feigned, hang_up=passage.hang_up)
    answer = with_feigned(ProduceResponse(responses=[]), passage.feigned)
    return _Slot(header, encode_response(answer, header.api_version, header.correlation_id))


def _produce(header: RequestHeader, frame: memoryview, start: int) -> ProduceRequest | None:
    """The request if it produces, else None. What cannot be read passes as it is."""
    if header.api_key != ApiKey.PRODUCE or header.api_version < _LOWEST_PRODUCE:
        return None
    try:
        return decode(ProduceRequest, header.api_version, frame, start)
    except ProtocolError:
        return None


async def _main(config: dict[str, Any]) -> None:
    stopped = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stopped.set)
    with contextlib.suppress(asyncio.CancelledError):
        await Proxy(config).run(stopped)


if __name__ == "__main__":
    configure_logging()
    die_with_parent()
    asyncio.run(_main(json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))))
