"""Clients that stop reading, never finish, vanish or flood: what they take is bounded, and goes
when they do."""

from __future__ import annotations

import socket
import struct
import time
from collections.abc import Iterator
from contextlib import ExitStack, suppress

import pytest
from eventually import eventually

from tallymark.net.addresses import parse_address
from tallymark.net.server.connection import ServerConnection
from tallymark.protocol import frames
from tallymark.protocol.messages import (
    FetchRequest,
    FetchRequestPartition,
    FetchRequestTopic,
    MetadataRequest,
    MetadataRequestTopic,
    ProduceRequest,
    ProduceRequestPartition,
    ProduceRequestTopic,
)
from tallymark.protocol.records.batch import encode_batch
from tallymark.testing.broker_thread import BrokerThread
from tallymark.testing.wire import WireClient

MIB = 1 << 20


@pytest.fixture
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerThread]:
    with BrokerThread(tmp_path_factory.mktemp("data"), message_max_bytes=4 * MIB) as running:
        with WireClient(running.bootstrap_servers) as wire:
            name = MetadataRequestTopic(name="t")
            wire.ask(MetadataRequest(topics=[name], allow_auto_topic_creation=True), 5)
            ask_until_written(wire)
        yield running
        assert_served(running)
        wait_until_alone(running)


def ask_until_written(wire: WireClient) -> None:
    """4 MiB of messages; the topic may be a moment away."""
    partition = ProduceRequestPartition(index=0, records=encode_batch([(None, bytes(MIB), (), 1)]))
    topic = ProduceRequestTopic(name="t", partition_data=[partition])
    written, deadline = 0, time.monotonic() + 60
    while written < 4:
        answer = wire.ask(ProduceRequest(acks=-1, timeout_ms=1000, topic_data=[topic]), 9)
        written += answer.responses[0].partition_responses[0].error_code == 0
        assert time.monotonic() < deadline


def connections(broker: BrokerThread) -> set[ServerConnection]:
    assert broker.broker is not None
    servers = broker.broker.listeners.servers.values()
    return {each for server in servers for each in tuple(server.connections)}


def assert_served(broker: BrokerThread) -> None:
    with WireClient(broker.bootstrap_servers) as wire:
        assert wire.ask(MetadataRequest(topics=[]), 1).brokers


def wait_until_alone(broker: BrokerThread) -> None:
    eventually(lambda: not connections(broker), what="those whose clients are gone are closed")


def connect(broker: BrokerThread) -> socket.socket:
    where = parse_address(broker.bootstrap_servers)
    return socket.create_connection((where.host, where.port), 10)


def fetch(offset: int = 0, max_wait_ms: int = 0, min_bytes: int = 1) -> bytes:
    partition = FetchRequestPartition(partition=0, fetch_offset=offset, partition_max_bytes=8 * MIB)
    topic = FetchRequestTopic(topic="t", partitions=[partition])
    request = FetchRequest(
        max_wait_ms=max_wait_ms, min_bytes=min_bytes, max_bytes=8 * MIB, topics=[topic]
    )
    return frames.encode_request(request, 11, 1, "bad")


def test_a_client_that_does_not_read(broker: BrokerThread) -> None:
    """It asks for 4 MiB five hundred times and takes nothing: what waits for it in memory is about
    one answer, not two gigabytes."""
    with ExitStack() as stack:
        stuck = [stack.enter_context(connect(broker)) for _ in range(3)]
        for each in stuck:
            each.setblocking(False)
            with suppress(BlockingIOError):
                each.send(fetch() * 500)
        for _ in range(20):
            assert_served(broker)
            time.sleep(0.01)
        assert len(connections(broker)) >= 3
        for connection in connections(broker):
            assert connection._transport.get_write_buffer_size() < 6 * MIB
            assert connection._outbox.out_bytes < 6 * MIB
            assert len(connection._answers) <= connection._limits.max_unanswered


def test_requests_that_never_end(broker: BrokerThread) -> None:
    """Two hundred clients announce megabytes and send a few bytes: room is taken for what is
    there, not for what was announced."""
    with ExitStack() as stack:
        for size in (100_000_000, 1_500_000, 20):
            for _ in range(60):
                each = stack.enter_context(connect(broker))
                each.sendall(struct.pack(">ihhih", size, 0, 9, 1, -1) + b"x" * 7)
        for _ in range(10):
            assert_served(broker)
        assert len(connections(broker)) >= 180


def test_clients_that_vanish(broker: BrokerThread) -> None:
    """With a reset, in the middle of a request, of an answer, and of a long poll."""
    half = struct.pack(">ihh", 5000, 0, 9)
    for data in (b"", half, fetch() * 20, fetch(offset=4, max_wait_ms=600_000)):
        for _ in range(5):
            gone = connect(broker)
            gone.sendall(data)
            # Closed with a reset: no end of the stream that could be read in order.
            gone.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            gone.close()
    wait_until_alone(broker)


def test_a_client_that_says_no_more_but_stays(broker: BrokerThread) -> None:
    """Half-open: it has closed its sending side and still reads. It gets its answers, or an end."""
    with connect(broker) as half_open:
        half_open.sendall(fetch(offset=4, max_wait_ms=600_000, min_bytes=1))
        half_open.shutdown(socket.SHUT_WR)
        half_open.settimeout(10)
        while half_open.recv(1 << 16):
            pass


def test_a_flood_of_small_requests_lets_others_through(broker: BrokerThread) -> None:
    """Twenty thousand requests on one connection: others do not wait for all of them."""
    one = frames.encode_request(MetadataRequest(topics=[]), 1, 1, "bad")
    with connect(broker) as flood:
        flood.setblocking(False)
        rest = memoryview(one * 20_000)
        for _ in range(50):
            with suppress(BlockingIOError):
                rest = rest[flood.send(rest) :]
            assert_served(broker)
        for connection in connections(broker):
            assert connection._transport.get_write_buffer_size() < 6 * MIB
