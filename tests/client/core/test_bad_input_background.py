"""What dies in the background surfaces at the next call, and closing still works."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable, Iterator

import pytest

from tallymark.client import Admin, Producer, SimpleConsumer
from tallymark.client.core import supervised
from tallymark.client.core.io_thread import IoThread
from tallymark.client.metrics import Recorder
from tallymark.errors import ClientFailedError, ClosedError, KafkaError
from tallymark.protocol.api import ApiKey
from tallymark.testing.scripted_broker import HangUp, ScriptedBroker


@pytest.fixture
def broker() -> Iterator[ScriptedBroker]:
    with ScriptedBroker({"t": 1}) as broker:
        yield broker


@pytest.fixture
def io() -> Iterator[IoThread]:
    io = IoThread("thread of a test")
    yield io
    io.stop()


async def die() -> None:
    raise ZeroDivisionError("a bug")


def wait_for_failure(io: IoThread, poke: Callable[[], object] = lambda: None) -> None:
    for _ in range(500):
        if io.failure is not None:
            return
        io.call(poke)
        time.sleep(0.01)
    raise AssertionError("nobody noticed")


def test_a_dead_task_is_raised_by_every_later_call(io: IoThread) -> None:
    async def begin() -> None:
        supervised.start(die(), "counting")

    told: list[ClientFailedError] = []
    io.on_failure = told.append
    io.run(begin())
    wait_for_failure(io)
    for _ in range(2):
        with pytest.raises(ClientFailedError, match="counting died of ZeroDivisionError: a bug"):
            io.run(asyncio.sleep(0))
        with pytest.raises(ClientFailedError):
            io.submit(asyncio.sleep(0))
    io.finish(asyncio.sleep(0))
    assert told == [io.failure]
    assert isinstance(told[0].__cause__, ZeroDivisionError)


def test_a_callback_that_dies_is_noticed_too(io: IoThread) -> None:
    io.call(lambda: 1 // 0)
    wait_for_failure(io)
    with pytest.raises(ClientFailedError, match="a callback died of ZeroDivisionError"):
        io.run(asyncio.sleep(0))


def test_errors_of_ours_and_cancellation_are_no_deaths(io: IoThread) -> None:
    async def refuse() -> None:
        raise KafkaError(6)

    async def begin() -> None:
        refused = supervised.start(refuse(), "refusing")
        cancelled = supervised.start(asyncio.sleep(60), "sleeping")
        await asyncio.sleep(0)
        cancelled.cancel()
        await asyncio.gather(refused, cancelled, return_exceptions=True)

    io.run(begin())
    io.run(asyncio.sleep(0))


def test_a_producer_whose_sender_dies(
    broker: ScriptedBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was accepted fails by name instead of waiting for ever, and so does the next send()."""
    producer = Producer(bootstrap_servers=broker.address, audit=False, linger_ms=0)
    with producer:
        producer.send("t", b"x").result(20)
        cluster = producer._core.cluster
        monkeypatch.setattr(cluster, "leader_address", _broken_once(cluster.leader_address))
        delivery = producer.send("t", b"y")
        with pytest.raises(ClientFailedError, match="died of ZeroDivisionError"):
            delivery.result(20)
        with pytest.raises(ClientFailedError):
            producer.send("t", b"z")
        with pytest.raises(ClientFailedError):
            producer.flush(5)


def _broken_once(sound: Callable[..., object]) -> Callable[..., object]:
    broken = [True]

    def function(*args: object) -> object:
        if broken:
            broken.clear()
            raise ZeroDivisionError("a bug")
        return sound(*args)

    return function


def test_a_consumer_whose_refreshing_dies(
    broker: ScriptedBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    with SimpleConsumer(bootstrap_servers=broker.address) as consumer:
        consumer.fetch("t", 0, 0, max_wait_ms=0)
        cluster = consumer._cluster

        def fail(*args: object, **settings: object) -> None:
            raise ZeroDivisionError("a bug")

        monkeypatch.setattr(cluster, "refresh", fail)
        wait_for_failure(consumer._io, cluster.refresh_soon)
        with pytest.raises(ClientFailedError, match="metadata refresh died"):
            consumer.fetch("t", 0, 0, max_wait_ms=0)


def test_callbacks_of_the_application_are_not_the_client(broker: ScriptedBroker) -> None:
    def fail(*args: object) -> None:
        raise ZeroDivisionError("the application's bug")

    with Producer(
        bootstrap_servers=broker.address, audit=False, linger_ms=0, metrics=fail
    ) as producer:
        producer.send("t", b"x", on_delivery=fail).result(20)
        producer.send("t", b"y").result(20)
    assert broker.values("t") == [b"x", b"y"]


def test_after_a_fork_the_parents_client_says_so_in_the_child(broker: ScriptedBroker) -> None:
    """A thread does not come along into a child; a call there waited for it for ever."""
    with (
        SimpleConsumer(bootstrap_servers=broker.address) as consumer,
        Admin(bootstrap_servers=broker.address) as admin,
    ):
        consumer.topics()
        pid = os.fork()
        if not pid:
            code = 1
            try:
                for call in (consumer.topics, admin.topics):
                    try:
                        call()
                    except ClosedError as error:
                        code -= "stayed in the parent process" not in str(error)
                code -= 1
            finally:
                os._exit(code)
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
        assert "t" in consumer.topics()


def test_everything_is_measured(broker: ScriptedBroker) -> None:
    recorder = Recorder()
    with (
        Producer(
            bootstrap_servers=broker.address, audit=False, linger_ms=0, metrics=recorder
        ) as producer,
        SimpleConsumer(bootstrap_servers=broker.address, metrics=recorder) as consumer,
        Admin(bootstrap_servers=broker.address, metrics=recorder) as admin,
    ):
        producer.send("t", b"x").result(20)
        broker.script(ApiKey.PRODUCE, HangUp())
        producer.send("t", b"y").result(20)
        consumer.fetch("t", 0, 0, max_wait_ms=0)
        admin.topics()
    labels = {"broker": broker.address}
    assert recorder.count("request_seconds", api="Produce", **labels) == 2
    assert recorder.count("request_errors", api="Produce", error="NETWORK_EXCEPTION") == 1
    assert recorder.count("request_seconds", api="Fetch") == 1
    assert recorder.sum("bytes_out", api="Fetch") > 20
    assert recorder.sum("bytes_in", **labels) > 100
    assert recorder.sum("records_acknowledged", topic="t") == 2
    assert recorder.sum("records_fetched", topic="t", partition="0") == 2
    assert recorder.count("lag", topic="t") == 1
    assert recorder.count("connect_seconds", **labels) == 4
    assert recorder.count("connections_closed", **labels) == 4
    with (
        SimpleConsumer(
            bootstrap_servers="127.0.0.1:1", metrics=recorder, request_timeout_ms=5000
        ) as consumer,
        pytest.raises(Exception, match="refused"),
    ):
        consumer.topics()
    assert recorder.count("connect_errors", broker="127.0.0.1:1", stage="connect") >= 1


def test_a_recorder_adds_up() -> None:
    recorder = Recorder()
    recorder("a", 2, {"x": "1"})
    recorder("a", 3, {"x": "1"})
    recorder("a", 5, {"x": "2"})
    assert recorder.sum("a") == 10
    assert recorder.sum("a", x="1") == 5
    assert recorder.count("a", x="3") == 0
    assert recorder.snapshot()["a", ("x", "1")].max == 3
