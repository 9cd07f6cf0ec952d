"""A broker at the limit of its descriptors: connections do not take what the logs need, what fails
is told in few lines, and nothing that was acknowledged is lost."""

from __future__ import annotations

import asyncio
import errno
import logging
import resource
import socket
from contextlib import ExitStack
from pathlib import Path

import pytest
from broker_process import BrokerProcess
from eventually import eventually
from hypothesis import given
from hypothesis import strategies as st

from tallymark import Producer
from tallymark.client import Admin, NewTopic, SimpleConsumer
from tallymark.net.limits.accept_queue import rate_accept_errors
from tallymark.net.limits.connection_quota import OF_THE_PROCESS, connections_allowed


@given(st.integers(1, 2**31 - 1), st.integers(3, 2**31))
def test_connections_leave_the_logs_their_half(asked: int, descriptors: int) -> None:
    allowed = connections_allowed(asked, descriptors)
    assert 1 <= allowed <= asked
    if descriptors > OF_THE_PROCESS + 2:
        assert descriptors - OF_THE_PROCESS - allowed >= allowed


def test_no_limit_and_usual_ones() -> None:
    assert connections_allowed(10_000, resource.RLIM_INFINITY) == 10_000
    assert connections_allowed(10_000, 1_048_576) == 10_000
    assert connections_allowed(10_000, 1024) == 496
    assert connections_allowed(10_000, 64) == 16


def accept_error(number: int) -> dict[str, object]:
    return {
        "message": "socket.accept() out of system resource",
        "exception": OSError(number, "no more"),
    }


def test_errors_of_accepting_are_one_line_and_others_are_told(
    caplog: pytest.LogCaptureFixture,
) -> None:
    told: list[dict[str, object]] = []
    loop = asyncio.new_event_loop()
    try:
        loop.set_exception_handler(lambda _, context: told.append(context))
        rate_accept_errors(loop)
        rate_accept_errors(loop)  # every listener of a process does
        with caplog.at_level(logging.WARNING):
            for _ in range(1000):
                for number in (errno.EMFILE, errno.ENFILE, errno.ENOBUFS):
                    loop.call_exception_handler(accept_error(number))
        loop.call_exception_handler({"message": "a task died", "exception": OSError()})
    finally:
        loop.close()
    assert len(caplog.records) == 3
    assert all(record.exc_info is None for record in caplog.records)
    assert [context["message"] for context in told] == ["a task died"]


def messages_of(broker: BrokerProcess, topic: str, partitions: int) -> set[bytes]:
    found: set[bytes] = set()
    with SimpleConsumer(bootstrap_servers=broker.address) as consumer:
        ends = consumer.end_offsets(topic)  # a fetch at the end would wait for half a second
        for partition in range(partitions):
            offset = 0
            while offset < ends[partition]:
                batch = list(consumer.fetch(topic, partition, offset))
                found |= {message.value for message in batch if message.value is not None}
                offset = batch[-1].offset + 1
    return found


@pytest.mark.soak
@pytest.mark.process
def test_idle_connections_take_neither_the_log_nor_the_disk(tmp_path: Path) -> None:
    """A broker with 64 descriptors was given 200 idle connections: it wrote 24 MB of tracebacks in
    ten seconds, took a core, and no log could begin a segment. Here 100 come (where the queue
    of connections is full, each waits for a second). They are closed beyond 16, a
    producer that was there goes on over many segments and partitions, more than there are
    descriptors, and everything it was told is safe is there."""
    partitions = 40
    broker = BrokerProcess(
        tmp_path,
        log_segment_bytes=4096,
        log_flush_scheduler_interval_ms=50,
        log_flush_interval_ms=50,
    )
    with ExitStack() as opened:
        broker.start(descriptors=64)
        opened.callback(broker.kill)
        with Admin(bootstrap_servers=broker.address) as admin:
            admin.create_topics([NewTopic("t", partitions)]).check()
        producer = opened.enter_context(
            Producer(bootstrap_servers=broker.address, audit=False, linger_ms=0)
        )
        producer.send("t", b"first").result(30)
        before = broker.log.stat().st_size
        links = [
            opened.enter_context(socket.create_connection(("127.0.0.1", broker.port)))
            for _ in range(100)
        ]
        acknowledged = {b"first"}
        for turn in range(3):
            values = [b"%d-%d " % (turn, number) + b"x" * 500 for number in range(partitions * 5)]
            sent = [
                producer.send("t", value, partition=number % partitions)
                for number, value in enumerate(values)
            ]
            for one, value in zip(sent, values, strict=True):
                one.result(60)
                acknowledged.add(value)
        closed = 0
        for link in links:
            link.setblocking(False)
            try:
                closed += not link.recv(1)
            except BlockingIOError:
                pass
            except ConnectionResetError:
                closed += 1
        assert closed >= 84
        assert broker.log.stat().st_size - before < 20_000, broker.log.read_text()[-3000:]
        assert b"Traceback" not in broker.log.read_bytes()
        for link in links:
            link.close()
        eventually(
            lambda: messages_of(broker, "t", partitions) == acknowledged,
            seconds=30,
            what="everything that was acknowledged is read",
        )
        segments = list(broker.data.glob("t-*/*.log"))
        assert len(segments) > 64
        broker.stop()
