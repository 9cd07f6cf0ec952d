"""What networks and brokers do to clients: every call ends, in bounded time, with its result or an
error that says which address failed at which stage; and what was accepted is not lost."""

from __future__ import annotations

import gc
import socket
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from threads_left import no_thread_is_left

from tallymark.client import Admin, Producer, SimpleConsumer
from tallymark.client.core import bootstrap
from tallymark.client.producing.batches import accumulator
from tallymark.client.reading.simple_consumer import FetchSpec
from tallymark.errors import (
    ConnectError,
    KafkaError,
    TallymarkError,
    TimedOutError,
    WrongClusterError,
)
from tallymark.net.addresses import Address
from tallymark.net.client import flow_control
from tallymark.protocol.api import ApiKey
from tallymark.testing.flaky_proxy import FlakyProxy
from tallymark.testing.scripted_broker import HangUp, Late, Refuse, ScriptedBroker

pytestmark = pytest.mark.process
FAST: Any = {"request_timeout_ms": 400}


@pytest.fixture(autouse=True)
def nothing_is_left_behind() -> Iterator[None]:
    """No thread; and no socket, whose collection would be a warning and so an error."""
    with no_thread_is_left():
        yield
        gc.collect()


@pytest.fixture
def proxy() -> Iterator[FlakyProxy]:
    with FlakyProxy() as proxy:
        yield proxy


@pytest.fixture
def broker(proxy: FlakyProxy) -> Iterator[ScriptedBroker]:
    """One that clients reach through the proxy only."""
    with ScriptedBroker({"t": 1}, advertised=proxy.address) as broker:
        proxy.target = broker.address
        yield broker


def producer(address: str, **settings: Any) -> Producer:
    fixed = {"audit": False, "linger_ms": 0, "retry_backoff_ms": 20}
    return Producer(bootstrap_servers=address or None, **(fixed | FAST | settings))


def consume(consumer: SimpleConsumer) -> list[bytes | None]:
    return [r.value for r in consumer.fetch("t", 0, 0, max_wait_ms=0).records()]


def bounded(call: Callable[[], object], error: type[TallymarkError], seconds: float) -> Any:
    """The error that the call ended with."""
    began = time.monotonic()
    with pytest.raises(error) as raised:
        call()
    assert time.monotonic() - began < seconds
    return raised.value


CALLS: dict[str, Callable[[str], object]] = {
    "producer": lambda a: _within(producer(a, max_block_ms=600), lambda p: p.send("t", b"x")),
    "consumer": lambda a: _within(
        SimpleConsumer(bootstrap_servers=a, **FAST), lambda c: c.fetch("t", 0, 0)
    ),
    "offsets": lambda a: _within(
        SimpleConsumer(bootstrap_servers=a, **FAST), lambda c: c.get_offsets_before("t", 0)
    ),
    "admin": lambda a: _within(Admin(bootstrap_servers=a, **FAST), lambda c: c.topics()),
}


def _within(client: Any, call: Callable[[Any], object]) -> object:
    with client:
        return call(client)


@pytest.mark.parametrize("who", CALLS)
def test_nobody_listens(who: str) -> None:
    error = bounded(lambda: CALLS[who]("127.0.0.1:1"), TallymarkError, 20)
    assert "127.0.0.1:1: connect failed: refused; is the broker running" in str(error)


@pytest.mark.parametrize("who", CALLS)
def test_a_name_that_nobody_knows(who: str) -> None:
    error = bounded(lambda: CALLS[who]("no-such-host.invalid:9092"), TallymarkError, 20)
    assert "no-such-host.invalid:9092: resolve failed" in str(error)


@pytest.mark.parametrize("name", ["a" * 70 + ".invalid", "b..c"])
def test_a_name_that_cannot_be_one(name: str) -> None:
    """The encoding of names has an error of its own, which was none of ours."""
    with SimpleConsumer(bootstrap_servers=f"{name}:9092", **FAST) as consumer:
        error = bounded(lambda: consumer.fetch("t", 0, 0), ConnectError, 20)
    assert f"{name}:9092: resolve failed" in str(error)


@pytest.mark.parametrize("who", CALLS)
def test_a_black_hole(who: str, proxy: FlakyProxy, broker: ScriptedBroker) -> None:
    proxy.black_hole()
    error = bounded(lambda: CALLS[who](proxy.address), TallymarkError, 20)
    assert proxy.address in str(error)
    assert "no answer" in str(error)


@pytest.mark.parametrize("who", CALLS)
def test_somebody_who_speaks_something_else(who: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = f"127.0.0.1:{server.getsockname()[1]}"

        def greet() -> None:
            while True:
                try:
                    peer, _ = server.accept()
                except OSError:
                    return
                with peer:
                    peer.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")

        thread = threading.Thread(target=greet)
        thread.start()
        try:
            error = bounded(lambda: CALLS[who](address), TallymarkError, 20)
        finally:
            server.shutdown(socket.SHUT_RDWR)
            server.close()
            thread.join()
    assert f"{address}: api failed" in str(error)


def test_the_advertised_host_that_failed_is_named(broker: ScriptedBroker) -> None:
    """ "No brokers available" is what clients said whose bootstrap address was right."""
    broker.advertised = "127.0.0.1:1"
    with SimpleConsumer(bootstrap_servers=broker.address, **FAST) as consumer:
        error = bounded(lambda: consumer.fetch("t", 0, 0), KafkaError, 20)
    assert "127.0.0.1:1: connect failed: refused" in str(error)
    assert f"broker 0 of {broker.address} tells clients to connect there" in str(error)
    assert "advertised.listeners" in str(error)


def test_a_host_name_is_named_with_its_addresses() -> None:
    with SimpleConsumer(bootstrap_servers="localhost:1", **FAST) as consumer:
        error = bounded(lambda: consumer.fetch("t", 0, 0), ConnectError, 20)
    assert "localhost:1 (" in str(error)
    assert "127.0.0.1" in str(error)


def test_a_name_of_several_addresses_of_which_one_answers(
    proxy: FlakyProxy, broker: ScriptedBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A load balancer's name, or the one name of a whole cluster."""
    real = socket.getaddrinfo

    def several(host: Any, port: Any, *args: Any, **settings: Any) -> Any:
        if host != "brokers.example":
            return real(host, port, *args, **settings)
        ips = ("127.0.0.3", "127.0.0.2", "127.0.0.1")
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (ip, port)) for ip in ips]

    monkeypatch.setattr(socket, "getaddrinfo", several)
    _, _, port = proxy.address.rpartition(":")
    with SimpleConsumer(bootstrap_servers=f"brokers.example:{port}") as consumer:
        assert consume(consumer) == []
    with SimpleConsumer(bootstrap_servers="brokers.example:1", **FAST) as consumer:
        error = bounded(lambda: consumer.fetch("t", 0, 0), ConnectError, 20)
    assert "brokers.example:1 (127.0.0.3, 127.0.0.2, 127.0.0.1): connect failed" in str(error)


def test_a_load_balancer_before_brokers_that_advertise_themselves(proxy: FlakyProxy) -> None:
    with ScriptedBroker({"t": 1}) as broker:
        proxy.target = broker.address
        with producer(proxy.address) as sender:
            sender.send("t", b"x").result(20)
            proxy.refuse()
            proxy.cut()
            sender.send("t", b"y").result(20)
        assert broker.values("t") == [b"x", b"y"]


@pytest.mark.parametrize("harm", ["cut", "half_close"])
def test_a_broken_connection_costs_nothing(
    harm: str, proxy: FlakyProxy, broker: ScriptedBroker
) -> None:
    with (
        producer(proxy.address) as sender,
        SimpleConsumer(bootstrap_servers=proxy.address) as consumer,
        Admin(bootstrap_servers=proxy.address) as admin,
    ):
        sent: list[bytes] = []
        for number in range(4):
            sent.append(b"%d" % number)
            delivery = sender.send("t", sent[-1])
            if number % 2:
                getattr(proxy, harm)()
            delivery.result(20)
            assert consume(consumer) == sent
            assert "t" in admin.topics()
    assert broker.values("t") == sent


def test_answers_cut_in_the_middle_lose_and_repeat_nothing(
    proxy: FlakyProxy, broker: ScriptedBroker
) -> None:
    with producer(proxy.address, batch_size=100) as sender:
        sender.send("t", b"first").result(20)
        deliveries = []
        for number in range(60):
            if number % 10 == 3:
                proxy.cut_after(number % 7)
            deliveries.append(sender.send("t", b"%d" % number))
            if number % 5 == 4:
                deliveries[-1].result(20)
        for delivery in deliveries:
            delivery.result(20)
    assert broker.values("t") == [b"first", *(b"%d" % n for n in range(60))]


def test_corruption_on_the_way_to_the_consumer_is_found_and_asked_for_again(
    proxy: FlakyProxy, broker: ScriptedBroker
) -> None:
    """TCP's checksum misses some. The last bytes of an answer are those of the records."""
    with producer(broker.address) as sender:
        broker.advertised = broker.address
        sender.send("t", b"x" * 100).result(20)
    broker.advertised = proxy.address
    with SimpleConsumer(bootstrap_servers=proxy.address, **FAST) as consumer:
        assert consume(consumer) == [b"x" * 100]
        proxy.corrupt(1)
        (outcome,) = consumer.multifetch([FetchSpec("t", 0, 0)], max_wait_ms=0)
        if isinstance(outcome, KafkaError):
            assert outcome.name in ("CORRUPT_MESSAGE", "NETWORK_EXCEPTION")
        else:
            assert [r.value for r in outcome.records()] == [b"x" * 100]
        proxy.heal()
        assert consume(consumer) == [b"x" * 100]


def test_corruption_on_the_way_to_the_broker_is_refused_and_sent_again(
    proxy: FlakyProxy, broker: ScriptedBroker
) -> None:
    with producer(proxy.address) as sender:
        sender.send("t", b"a" * 50).result(20)
        proxy.corrupt(1, "to_target")
        sender.send("t", b"b" * 50).result(20)
    assert broker.values("t") == [b"a" * 50, b"b" * 50]


def test_a_broker_that_reads_no_more_is_given_up(
    proxy: FlakyProxy, broker: ScriptedBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With acks=0 no request has a deadline: a broker whose machine had vanished held up the
    producer for the quarter of an hour that TCP tries."""
    monkeypatch.setattr(flow_control, "UNREAD_TIMEOUT", 0.3)
    with producer(proxy.address, acks=0, delivery_timeout_ms=20_000) as sender:
        sender.send("t", b"x").result(20)
        proxy.stall()
        accepted = proxy.accepted
        deliveries = [sender.send("t", bytes(100_000)) for _ in range(200)]
        deadline = time.monotonic() + 60
        while proxy.accepted == accepted and time.monotonic() < deadline:
            deliveries.append(sender.send("t", b"y"))
            time.sleep(0.05)
        assert proxy.accepted > accepted, "it never connected again"
        proxy.heal()
        for delivery in deliveries:
            delivery.result(15)


def test_zookeeper_is_asked_once_a_second_however_many_try_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Each question is a session there: ten a second, of every client of a cluster that is down."""
    asked: list[str] = []

    def look(connect: str, protocol: str = "") -> tuple[Address, ...]:
        asked.append(connect)
        return (Address("127.0.0.1", 1),)

    monkeypatch.setattr(bootstrap, "brokers_in_zookeeper", look)
    with (
        producer("", zookeeper_connect="z:2181", max_block_ms=1500) as sender,
        pytest.raises(TimedOutError, match=r"127\.0\.0\.1:1: connect failed"),
    ):
        sender.send("t", b"x")
    assert 1 <= len(asked) <= 3


def test_a_slow_broker_is_an_error_without_a_storm(
    proxy: FlakyProxy, broker: ScriptedBroker
) -> None:
    with SimpleConsumer(bootstrap_servers=proxy.address, request_timeout_ms=1000) as consumer:
        assert consume(consumer) == []
        proxy.delay(3.0, "to_client")
        before, cpu = proxy.accepted, time.process_time()
        error = bounded(lambda: consume(consumer), TallymarkError, 20)
        assert "no response to" in str(error) or "no answer" in str(error)
        assert proxy.accepted - before < 12
        assert time.process_time() - cpu < 2
        proxy.heal()
        assert consume(consumer) == []


def test_a_broker_that_goes_and_comes_back(proxy: FlakyProxy, broker: ScriptedBroker) -> None:
    with producer(proxy.address) as sender:
        sender.send("t", b"0").result(20)
        broker.stop()
        waiting = [sender.send("t", b"%d" % number) for number in range(1, 20)]
        accepted = proxy.accepted
        time.sleep(0.5)
        assert proxy.accepted - accepted < 60, "no storm of connections"
        broker.start()
        proxy.target = broker.address
        for delivery in waiting:
            delivery.result(20)
    assert broker.values("t") == [b"%d" % number for number in range(20)]


@pytest.mark.soak
@pytest.mark.parametrize("harm", ["refuse", "black_hole"])
def test_waiting_for_a_broker_costs_next_to_nothing(
    harm: str, proxy: FlakyProxy, broker: ScriptedBroker
) -> None:
    """A connection that is refused ends at once, one into the void never: neither is a reason to
    try without a pause, which takes a whole core. Measured are all threads of this process, proxy
    and broker included: some 9 % of a slow one."""
    with producer(proxy.address) as sender:
        sender.send("t", b"0").result(20)
        getattr(proxy, harm)()
        proxy.cut()
        waiting = [sender.send("t", b"%d" % number) for number in range(1, 200)]
        cpu, began = time.process_time(), time.monotonic()
        time.sleep(3)
        share = (time.process_time() - cpu) / (time.monotonic() - began)
        assert share < 0.3, f"{share:.0%} of a core"
        proxy.heal()
        if harm == "refuse":
            proxy.listen()
        proxy.cut()
        for delivery in waiting:
            delivery.result(20)
    assert broker.values("t") == [b"%d" % number for number in range(200)]


def test_a_broker_that_never_comes_back_fails_what_was_accepted_by_name(
    proxy: FlakyProxy, broker: ScriptedBroker
) -> None:
    with producer(proxy.address, delivery_timeout_ms=3000, request_timeout_ms=2000) as sender:
        sender.send("t", b"0").result(20)
        proxy.refuse()
        proxy.cut()
        delivery = sender.send("t", b"1")
        error = bounded(lambda: delivery.result(20), TimedOutError, 20)
    assert proxy.address in str(error)
    assert "refused" in str(error)


def test_another_cluster_behind_the_same_address(proxy: FlakyProxy, broker: ScriptedBroker) -> None:
    """A port was taken over, a name was moved. What was meant for one cluster went, without a
    word, to the topic of that name in the other."""
    with (
        ScriptedBroker({"t": 1}, advertised=proxy.address) as other,
        producer(proxy.address, delivery_timeout_ms=3000) as sender,
        SimpleConsumer(bootstrap_servers=proxy.address, **FAST) as consumer,
        Admin(bootstrap_servers=proxy.address, **FAST) as admin,
    ):
        other.cluster_id = "other"
        sender.send("t", b"mine").result(20)
        assert consume(consumer) == [b"mine"]
        admin.topics()
        proxy.target = other.address
        proxy.cut()
        error = bounded(lambda: consume(consumer), TallymarkError, 20)
        assert "cluster other answers here, this client belongs to cluster scripted" in str(error)
        bounded(lambda: admin.topics(), WrongClusterError, 20)
        error = bounded(lambda: sender.send("t", b"not theirs").result(20), TallymarkError, 20)
        assert "cluster other answers here" in str(error)
        assert other.values("t") == []
        proxy.target = broker.address
        proxy.cut()
        sender.send("t", b"mine too").result(20)
        assert consume(consumer)[-1] == b"mine too"
    assert other.values("t") == []


def test_a_leader_that_moved_and_metadata_that_is_old(
    proxy: FlakyProxy, broker: ScriptedBroker
) -> None:
    with (
        producer(proxy.address) as sender,
        SimpleConsumer(bootstrap_servers=proxy.address) as consumer,
    ):
        sender.send("t", b"0").result(20)
        broker.script(ApiKey.PRODUCE, Refuse(6), HangUp(after_append=True), Refuse(5), Refuse(3))
        sender.send("t", b"1").result(20)
        broker.script(ApiKey.FETCH, Refuse(6), HangUp(), Refuse(74), Refuse(9))
        assert consume(consumer) == [b"0", b"1"]
        broker.script(ApiKey.METADATA, *[Refuse(5)] * 3, HangUp(), Late(0.1))
        broker.script(ApiKey.PRODUCE, Refuse(6))
        sender.send("t", b"2").result(20)
    assert broker.values("t") == [b"0", b"1", b"2"]


@pytest.mark.parametrize("hours", [-24, 24])
def test_a_clock_that_jumps(
    hours: int, proxy: FlakyProxy, broker: ScriptedBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Deadlines are by the clock that does not jump."""
    real, real_ns = time.time, time.time_ns
    with (
        producer(proxy.address, linger_ms=50) as sender,
        SimpleConsumer(bootstrap_servers=proxy.address, **FAST) as consumer,
        Admin(bootstrap_servers=proxy.address, **FAST) as admin,
    ):
        first = sender.send("t", b"0")
        monkeypatch.setattr(time, "time", lambda: real() + hours * 3600)
        monkeypatch.setattr(time, "time_ns", lambda: real_ns() + hours * 3600 * 10**9)
        monkeypatch.setattr(accumulator, "_clock", time.time_ns)
        second = sender.send("t", b"1")
        first.result(20)
        second.result(20)
        assert consume(consumer) == [b"0", b"1"]
        broker.script(ApiKey.PRODUCE, Refuse(6))
        sender.send("t", b"2").result(20)
        assert consume(consumer) == [b"0", b"1", b"2"]
        proxy.cut()
        assert "t" in admin.topics()
        times = [r.timestamp for r in consumer.fetch("t", 0, 0, max_wait_ms=0).records()]
        assert abs(times[2] - times[0] - hours * 3_600_000) < 60_000, "what was said at the time"
