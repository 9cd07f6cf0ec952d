"""What networks and brokers do to a consumer of a group: it goes on, or says why it cannot."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from cancel_everywhere import cancel_everywhere, reaches
from threads_left import no_thread_is_left

from tallymark.client import Admin, AsyncConsumer, Producer
from tallymark.client.connector.connector import ConsumerConnector
from tallymark.client.consuming.stream import Stream
from tallymark.client.reading.message import Message
from tallymark.errors import ConnectError, WrongClusterError
from tallymark.testing.broker_thread import BrokerThread
from tallymark.testing.flaky_proxy import FlakyProxy

pytestmark = pytest.mark.process


@pytest.fixture
def proxy() -> Iterator[FlakyProxy]:
    with FlakyProxy() as proxy:
        yield proxy


@pytest.fixture
def broker(tmp_path: Path, proxy: FlakyProxy) -> Iterator[BrokerThread]:
    """One that clients reach through the proxy only."""
    port = int(proxy.address.rpartition(":")[2])
    with BrokerThread(
        tmp_path,
        advertised_host_name="127.0.0.1",
        advertised_port=port,
        num_partitions=2,
        group_initial_rebalance_delay_ms=0,
    ) as broker:
        proxy.target = broker.bootstrap_servers
        yield broker


def connector(proxy: FlakyProxy, **settings: Any) -> ConsumerConnector:
    fixed: dict[str, Any] = {"group": "g", "fetch_max_wait_ms": 50, "request_timeout_ms": 1000}
    return ConsumerConnector(bootstrap_servers=proxy.address, **(fixed | settings))


def take(stream: Stream, wanted: set[bytes], seconds: float = 60) -> list[bytes]:
    found: list[bytes] = []
    deadline = time.monotonic() + seconds
    while not wanted <= set(found):
        assert time.monotonic() < deadline, wanted - set(found)
        found += [message.value or b"" for message in stream.poll(0.05)]
    return found


def publish(proxy: FlakyProxy, first: int) -> set[bytes]:
    values = {b"%d" % number for number in range(first, first + 10)}
    with Producer(bootstrap_servers=proxy.address, audit=False, linger_ms=0) as producer:
        for value in values:
            producer.send("t", value)
    return values


def busy(wait: Callable[[], list[Message]]) -> float:
    """How much of a core all threads of this process used while nothing came."""
    cpu, began = time.process_time(), time.monotonic()
    assert wait() == []
    return (time.process_time() - cpu) / (time.monotonic() - began)


def create(proxy: FlakyProxy) -> None:
    with Admin(bootstrap_servers=proxy.address) as admin:
        admin.create_topic("t", 2)


def test_broken_connections_lose_and_repeat_nothing(
    proxy: FlakyProxy, broker: BrokerThread
) -> None:
    create(proxy)
    with connector(proxy) as consumer:
        (stream,) = consumer.create_message_streams({"t": 1})["t"]
        found: list[bytes] = []
        everything: set[bytes] = set()
        harms: list[Callable[[], None]] = [
            proxy.cut,
            proxy.half_close,
            lambda: proxy.cut_after(30),
            lambda: proxy.corrupt(1),
        ]
        for round_, harm in enumerate(harms):
            sent = publish(proxy, 100 * round_)
            everything |= sent
            harm()
            found += take(stream, sent)
            proxy.heal()
        assert sorted(found) == sorted(everything)


def test_a_broker_that_falls_silent_and_comes_back(proxy: FlakyProxy, broker: BrokerThread) -> None:
    create(proxy)
    with connector(proxy, session_timeout_ms=6000, heartbeat_interval_ms=200) as consumer:
        (stream,) = consumer.create_message_streams({"t": 1})["t"]
        found = take(stream, publish(proxy, 0))
        proxy.black_hole()
        assert busy(lambda: stream.poll(2.5)) < 0.15
        proxy.heal()
        proxy.cut()
        found += take(stream, publish(proxy, 100))
        assert len(found) == 20


@pytest.mark.soak
def test_a_broker_that_stays_away_is_told_of_once(
    proxy: FlakyProxy, broker: BrokerThread, caplog: pytest.LogCaptureFixture
) -> None:
    """A member of a group logged "bootstrap failed" at every try, for as long as its broker was
    away: whatever event came by in between counted as good news."""
    with connector(proxy, retry_backoff_ms=20) as consumer:
        consumer.create_message_streams({"t": 1})
        broker.stop()
        proxy.target = "127.0.0.1:1"
        told = "bootstrap failed"
        deadline = time.monotonic() + 30
        while told not in caplog.text and time.monotonic() < deadline:
            time.sleep(0.05)
        time.sleep(2)  # some five tries
        texts = [r.getMessage() for r in caplog.records if told in r.getMessage()]
        assert 1 <= len(texts) == len(set(texts))


def test_a_broker_that_is_killed_and_started_again(proxy: FlakyProxy, broker: BrokerThread) -> None:
    create(proxy)
    with connector(proxy) as consumer:
        (stream,) = consumer.create_message_streams({"t": 1})["t"]
        found = take(stream, publish(proxy, 0))
        broker.stop()
        assert busy(lambda: stream.poll(2.5)) < 0.15
        broker.start()
        proxy.target = broker.bootstrap_servers
        found += take(stream, publish(proxy, 100))
        assert len(set(found)) == 20


@pytest.mark.parametrize("hours", [-24, 24])
def test_a_clock_that_jumps(
    hours: int, proxy: FlakyProxy, broker: BrokerThread, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It stops nothing and repeats nothing, neither here nor at the broker, which shares it."""
    create(proxy)
    real, real_ns = time.time, time.time_ns
    with connector(proxy, auto_commit_interval_ms=50) as consumer:
        (stream,) = consumer.create_message_streams({"t": 1})["t"]
        found = take(stream, publish(proxy, 0))
        monkeypatch.setattr(time, "time", lambda: real() + hours * 3600)
        monkeypatch.setattr(time, "time_ns", lambda: real_ns() + hours * 3600 * 10**9)
        found += take(stream, publish(proxy, 100))
        proxy.cut()
        found += take(stream, publish(proxy, 200))
        stream.poll(0)
        consumer.commit_offsets()
    with connector(proxy) as consumer:
        (stream,) = consumer.create_message_streams({"t": 1})["t"]
        found += take(stream, publish(proxy, 300))
    assert len(found) == len(set(found)) == 40


@pytest.mark.soak
def test_another_cluster_behind_the_same_address(
    proxy: FlakyProxy, broker: BrokerThread, tmp_path: Path
) -> None:
    """What stands there in a topic of the same name is not handed out, what was committed does not
    become the other cluster's, and the application hears of it."""
    create(proxy)
    port = int(proxy.address.rpartition(":")[2])
    (tmp_path / "other").mkdir()
    with (
        BrokerThread(
            tmp_path / "other",
            advertised_host_name="127.0.0.1",
            advertised_port=port,
            group_initial_rebalance_delay_ms=0,
        ) as other,
        connector(proxy, auto_commit_interval_ms=50, session_timeout_ms=6000) as consumer,
    ):
        (stream,) = consumer.create_message_streams({"t": 1})["t"]
        found = take(stream, publish(proxy, 0))
        proxy.target = other.bootstrap_servers
        proxy.cut()
        create(proxy)
        publish(proxy, 100)
        with pytest.raises(WrongClusterError, match="this client belongs to cluster"):
            take(stream, {b"100"})
        assert len(found) == 10
        consumer.shutdown(timeout=2.0)
        with Admin(bootstrap_servers=proxy.address) as admin:
            assert "g" not in admin.list_groups().groups
    proxy.target = broker.bootstrap_servers
    proxy.cut()
    with connector(proxy) as consumer:
        (stream,) = consumer.create_message_streams({"t": 1})["t"]
        sent = publish(proxy, 200)
        # It could not leave its group, which waits for the end of its session.
        assert set(take(stream, sent, 60)) <= set(found) | sent


@pytest.mark.parametrize("harm", ["refuse", "black_hole"])
def test_leaving_a_cluster_that_is_gone_is_bounded(
    harm: str, proxy: FlakyProxy, broker: BrokerThread
) -> None:
    create(proxy)
    with no_thread_is_left(), connector(proxy) as consumer:
        (stream,) = consumer.create_message_streams({"t": 1})["t"]
        take(stream, publish(proxy, 0))
        getattr(proxy, harm)()
        if harm == "refuse":
            proxy.cut()
        began = time.monotonic()
        consumer.shutdown(timeout=2.0)
        assert time.monotonic() - began < 12
        proxy.heal()


def test_no_broker_at_the_start_says_where(proxy: FlakyProxy) -> None:
    proxy.refuse()
    began = time.monotonic()
    with (
        connector(proxy, start_timeout_ms=500) as consumer,
        pytest.raises(ConnectError, match=f"{proxy.address}: connect failed: refused"),
    ):
        consumer.create_message_streams({"t": 1})
    assert time.monotonic() - began < 15


@pytest.mark.parametrize("late", [False, True], ids=["waiting", "just over"])
def test_the_asyncio_consumer_is_cancelled_at_every_await(
    late: bool, proxy: FlakyProxy, broker: BrokerThread
) -> None:
    """A message that was on its way to somebody who was cancelled goes to the next who asks."""
    create(proxy)

    async def scenario() -> None:
        found: list[bytes | None] = []
        with Producer(bootstrap_servers=proxy.address, audit=False, linger_ms=0) as producer:
            settings: dict[str, Any] = {"group": "async", "fetch_max_wait_ms": 50}
            async with AsyncConsumer(bootstrap_servers=proxy.address, **settings).subscribe(
                "t"
            ) as consumer:

                async def once(at: int) -> bool:
                    value = b"%d" % at
                    producer.send("t", value, partition=0)

                    async def work() -> None:
                        found.append((await anext(consumer)).value)
                        found.append((await anext(consumer)).value)  # has to be waited for
                        await consumer.commit()

                    asyncio.get_running_loop().call_later(0.1, producer.send, "t", value + b"+")
                    came = await reaches(work(), at, late)
                    while value + b"+" not in found or value not in found:
                        found.append((await asyncio.wait_for(anext(consumer), 20)).value)
                    return came

                count = await cancel_everywhere(once)
        assert count > 0
        assert len(found) == len(set(found)) == 2 * (count + 1)

    asyncio.run(scenario())
