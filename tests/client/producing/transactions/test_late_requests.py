"""KAFKA-17754: a request to end a transaction that comes so late that the next one is open. In the
older protocol both have the same epoch, so a broker, ours as well as Apache Kafka's, takes it for
the end of the next one. Our producer has a new epoch by then."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from broker_kinds import OURS, new_topic, start_apache_kafka
from late_requests import LateRequests
from older_protocol import use_the_older_protocol

from tallymark.client.producing.producer import Producer
from tallymark.client.reading.simple_consumer import SimpleConsumer
from tallymark.errors import TransactionFatalError
from tallymark.processes.apache_kafka.jars import OLDER, VERSION
from tallymark.protocol.api import ApiKey
from tallymark.testing.broker_thread import BrokerThread

APACHE_KAFKA = [
    pytest.param(version, marks=[pytest.mark.apache_kafka, pytest.mark.process, pytest.mark.soak])
    for version in (OLDER, VERSION)
]


@pytest.fixture(scope="module", params=[OURS, *APACHE_KAFKA])
def proxy(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[LateRequests]:
    """Before a broker that clients know by the proxy's address only."""
    folder = tmp_path_factory.mktemp("broker")
    with LateRequests() as late:
        advertised = f"PLAINTEXT://{late.address}"
        if request.param == OURS:
            with BrokerThread(folder, advertised_listeners=advertised) as broker:
                late.target = broker.bootstrap_servers
                yield late
            return
        kafka = start_apache_kafka(
            folder, {"advertised.listeners": advertised}, version=request.param
        )
        try:
            late.target = f"127.0.0.1:{kafka.port}"
            yield late
        finally:
            kafka.kill()


def late_end(proxy: LateRequests, topic: str, *, protocol: int, renews: bool) -> list[bytes | None]:
    """A commit is late and made again, then the next transaction is open as it comes, and is
    aborted. Returns what is committed."""
    with Producer(
        bootstrap_servers=proxy.address, transactional_id=topic, request_timeout_ms=5000
    ) as producer:
        if protocol == 1:
            use_the_older_protocol(producer)
        producer.init_transactions()
        producer.begin_transaction()
        producer.send(topic, b"first")
        proxy.keep_back(ApiKey.END_TXN)
        producer.commit_transaction()  # asks again
        if not renews:
            manager = producer._core.transactions
            assert manager is not None
            assert manager.machine.must_renew
            manager.machine.must_renew = False
        producer.begin_transaction()
        producer.send(topic, b"second")
        producer.flush()
        proxy.deliver()
        if renews:
            producer.abort_transaction()
        else:
            with pytest.raises(TransactionFatalError):
                producer.abort_transaction()  # it is committed already
    with SimpleConsumer(bootstrap_servers=proxy.address, isolation="read_committed") as consumer:
        return [message.value for message in consumer.fetch(topic, 0, 0).records()]


@pytest.mark.parametrize("protocol", [1, 2])
def test_it_does_not_end_the_next_one(proxy: LateRequests, protocol: int) -> None:
    topic = new_topic("late")
    assert late_end(proxy, topic, protocol=protocol, renews=True) == [b"first"]


def test_a_producer_without_a_new_epoch_would_be_hit(proxy: LateRequests) -> None:
    """The story above can fail: what its producer aborts is committed."""
    topic = new_topic("late")
    assert late_end(proxy, topic, protocol=1, renews=False) == [b"first", b"second"]
