"""Other people's clients, unmodified, over TLS and SASL: they write, and read it back."""

from __future__ import annotations

import asyncio
import gc
import logging
import socket
import ssl
import time
import weakref
from collections.abc import Iterator
from typing import Any

import aiokafka
import pytest
from aiokafka.errors import AuthenticationFailedError
from confluent_kafka import Consumer, Producer, TopicPartition
from foreign_clients.kafka_python import kafka
from foreign_clients.leaving_sockets import leaving_sockets
from kafka.errors import KafkaError as KafkaPythonError
from security_world import PASSWORD, Certificates, add_users

from tallymark.net.sasl.mechanisms import MECHANISMS
from tallymark.testing.broker_thread import BrokerThread

pytestmark = pytest.mark.process

PROTOCOLS = ("SSL", "SASL_PLAINTEXT", "SASL_SSL")
WAYS = [("SSL", ""), *((p, m) for p in PROTOCOLS[1:] for m in MECHANISMS)]
VALUES = [b"%d" % n + b"x" * 40_000 for n in range(5)]
"""Large enough that a fetch leaves as a slice of a file, which TLS cannot send as one."""


@pytest.fixture(scope="module")
def broker(
    tmp_path_factory: pytest.TempPathFactory, certificates: Certificates
) -> Iterator[BrokerThread]:
    folder = tmp_path_factory.mktemp("data")
    add_users(folder / "broker", "alice")
    with BrokerThread(
        folder,
        listeners=",".join(f"{name}://127.0.0.1:0" for name in PROTOCOLS),
        ssl_keystore_location=str(certificates.broker),
        ssl_truststore_location=str(certificates.authority),
        ssl_client_auth="required",
        sasl_enabled_mechanisms=",".join(MECHANISMS),
    ) as running:
        yield running


def address(broker: BrokerThread, protocol: str) -> str:
    assert broker.broker is not None
    return str(broker.broker.listeners.servers[protocol].address)


def librdkafka(
    broker: BrokerThread, files: Certificates, protocol: str, mechanism: str, password: str
) -> dict[str, Any]:
    config: dict[str, Any] = {
        "bootstrap.servers": address(broker, protocol),
        "security.protocol": protocol,
        "ssl.ca.location": str(files.authority),
    }
    if protocol == "SSL":
        keystore = str(files.alice)
        return config | {"ssl.certificate.location": keystore, "ssl.key.location": keystore}
    return config | {
        "sasl.mechanisms": mechanism,
        "sasl.username": "alice",
        "sasl.password": password,
    }


def python(
    broker: BrokerThread, files: Certificates, protocol: str, mechanism: str, password: str
) -> dict[str, Any]:
    """For kafka-python and aiokafka."""
    context = ssl.create_default_context(cafile=str(files.authority))
    if protocol == "SSL":
        context.load_cert_chain(files.alice)
    config: dict[str, Any] = {
        "bootstrap_servers": address(broker, protocol),
        "security_protocol": protocol,
    }
    if protocol != "SASL_PLAINTEXT":
        config["ssl_context"] = context
    if mechanism:
        config["sasl_mechanism"] = mechanism
        config |= {"sasl_plain_username": "alice", "sasl_plain_password": password}
    return config


@pytest.mark.parametrize(("protocol", "mechanism"), WAYS)
def test_confluent_kafka(
    broker: BrokerThread, certificates: Certificates, protocol: str, mechanism: str
) -> None:
    topic = f"confluent-{protocol}-{mechanism}"
    config = librdkafka(broker, certificates, protocol, mechanism, PASSWORD)
    failed: list[Any] = []
    producer = Producer(config)
    for value in VALUES:
        producer.produce(topic, value, on_delivery=lambda error, _: failed.append(error))
    assert producer.flush(15) == 0
    producer.close()
    assert [error for error in failed if error is not None] == []
    consumer = Consumer({**config, "group.id": topic, "enable.auto.commit": False})
    consumer.assign([TopicPartition(topic, 0, 0)])
    found: list[Any] = []
    deadline = time.monotonic() + 60
    while len(found) < len(VALUES) and time.monotonic() < deadline:
        found += [message.value() for message in consumer.consume(10, 0.5)]
    consumer.close()
    assert found == VALUES


@pytest.mark.parametrize(("protocol", "mechanism"), WAYS)
def test_kafka_python(
    broker: BrokerThread, certificates: Certificates, protocol: str, mechanism: str
) -> None:
    topic = f"kafka-python-{protocol}-{mechanism}"
    config = python(broker, certificates, protocol, mechanism, PASSWORD)
    producer = kafka.KafkaProducer(**config)
    for value in VALUES:
        producer.send(topic, value).get(15)
    producer.close()
    consumer = kafka.KafkaConsumer(**config, enable_auto_commit=False)
    place = kafka.TopicPartition(topic, 0)
    consumer.assign([place])
    consumer.seek_to_beginning(place)
    found: list[Any] = []
    deadline = time.monotonic() + 60
    while len(found) < len(VALUES) and time.monotonic() < deadline:
        for records in consumer.poll(500).values():
            found += [record.value for record in records]
    consumer.close()
    assert found == VALUES


@pytest.mark.parametrize(("protocol", "mechanism"), WAYS)
def test_aiokafka(
    broker: BrokerThread, certificates: Certificates, protocol: str, mechanism: str
) -> None:
    topic = f"aiokafka-{protocol}-{mechanism}"
    config = python(broker, certificates, protocol, mechanism, PASSWORD)

    async def both() -> list[bytes]:
        async with aiokafka.AIOKafkaProducer(**config) as producer:
            for value in VALUES:
                await producer.send_and_wait(topic, value)
        found: list[bytes] = []
        async with aiokafka.AIOKafkaConsumer(**config) as consumer:
            place = aiokafka.TopicPartition(topic, 0)
            consumer.assign([place])
            await consumer.seek_to_beginning(place)
            async with asyncio.timeout(15):
                while len(found) < len(VALUES):
                    found.append((await consumer.getone()).value)
        return found

    with leaving_sockets():  # it does not wait for the end of its first connection's TLS
        assert asyncio.run(both()) == VALUES


def test_a_socket_of_a_logged_error_is_left_to_no_other_test() -> None:
    """aiokafka logged the error of a log-in that failed. So pytest had it, with the frames and an
    open connection, until the test had ended: the complaint failed a test of another file."""
    left: list[weakref.ref[socket.socket]] = []

    def log_in() -> None:
        opened = socket.socket()
        left.append(weakref.ref(opened))
        raise OSError("refused")

    with leaving_sockets():
        try:
            log_in()
        except OSError as error:
            logging.getLogger("theirs").error("unable to connect: %s", error)
    assert left[0]() is None


@pytest.mark.soak_cases("PLAIN", "SCRAM-SHA-256")
@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_a_wrong_password_fails_clearly(
    broker: BrokerThread, certificates: Certificates, mechanism: str
) -> None:
    told: list[str] = []
    wrong = librdkafka(broker, certificates, "SASL_SSL", mechanism, "wrong")
    wrong |= {"reconnect.backoff.ms": 10_000, "reconnect.backoff.max.ms": 10_000}
    producer = Producer({**wrong, "error_cb": lambda error: told.append(str(error))})
    producer.produce("never", b"x")
    deadline = time.monotonic() + 60
    while not told and time.monotonic() < deadline:
        producer.poll(0.1)
    producer.purge()
    producer.flush(5)
    producer.close()
    assert "Authentication failed: invalid credentials" in told[0]

    config = python(broker, certificates, "SASL_SSL", mechanism, "wrong")

    async def start() -> None:
        client = aiokafka.AIOKafkaProducer(**config)
        try:
            await client.start()
        finally:
            await client.stop()

    # A client of theirs that did not get in leaves sockets: kafka-python those that it wakes itself
    # with, aiokafka now and then its connection.
    with leaving_sockets():
        with pytest.raises(KafkaPythonError):
            kafka.KafkaConsumer(**config, bootstrap_timeout_ms=500)
        with pytest.raises((AuthenticationFailedError, aiokafka.errors.KafkaConnectionError)):
            asyncio.run(start())
        for _ in range(5):  # its thread may hold them for a moment longer
            gc.collect()
            time.sleep(0.1)


def test_a_stranger_s_certificate_is_refused(
    broker: BrokerThread, certificates: Certificates
) -> None:
    config = librdkafka(broker, certificates, "SSL", "", "")
    stranger = str(certificates.stranger)
    config |= {"ssl.certificate.location": stranger, "ssl.key.location": stranger}
    failed: list[Any] = []
    config |= {"reconnect.backoff.ms": 1000, "message.timeout.ms": 1500}
    producer = Producer(config)
    producer.produce("never", b"x", on_delivery=lambda error, _: failed.append(error))
    producer.flush(10)
    producer.close()
    assert [error is not None for error in failed] == [True]
