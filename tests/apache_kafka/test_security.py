"""Our clients and commands log in to an Apache Kafka that has TLS, SASL and an authorizer."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from broker_kinds import new_topic, start_apache_kafka
from commands import run_command
from cryptography.hazmat.primitives import serialization
from security_world import PASSWORD, Certificates, make_certificates

from tallymark.cli.admin import acls, topics, users
from tallymark.cli.messages import consume, produce
from tallymark.client import Admin, ConsumerConnector, Producer, SimpleConsumer
from tallymark.client.admin.users import NewPassword
from tallymark.errors import AuthenticationError, ConnectError, KafkaError
from tallymark.net.sasl.mechanisms import MECHANISMS, SCRAM_SHA_256, SCRAM_SHA_512
from tallymark.processes.apache_kafka import ApacheKafkaServer

pytestmark = [pytest.mark.apache_kafka, pytest.mark.process]

SECONDS = 20.0
SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule required;"
PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule required"
REAUTHENTICATION_MS = 3000


def broker_settings(certificates: Certificates) -> dict[str, str]:
    """Log-ins by every mechanism on one listener, certificates on another; entries are obeyed."""
    login = "listener.name.sasl_ssl"
    return {
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(certificates.broker),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(certificates.authority),
        "listener.name.ssl.ssl.client.auth": "required",
        "sasl.enabled.mechanisms": ",".join(MECHANISMS),
        f"{login}.scram-sha-256.sasl.jaas.config": SCRAM,
        f"{login}.scram-sha-512.sasl.jaas.config": SCRAM,
        f"{login}.plain.sasl.jaas.config": f'{PLAIN} user_alice="{PASSWORD}";',
        f"{login}.connections.max.reauth.ms": str(REAUTHENTICATION_MS),
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "allow.everyone.if.no.acl.found": "true",
        "super.users": "User:ANONYMOUS",  # who comes by the plain listener, and the broker itself
    }


def as_java_reads_it(keystore: Path) -> None:
    """Java wants a private key as PKCS #8."""
    data = keystore.read_bytes()
    key = serialization.load_pem_private_key(data, None).private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    keystore.write_bytes(key + data[data.index(b"-----BEGIN CERTIFICATE") :])


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    found = make_certificates(tmp_path_factory.mktemp("certificates"))
    as_java_reads_it(found.broker)
    return found


@pytest.fixture(scope="module")
def kafka(
    tmp_path_factory: pytest.TempPathFactory, certificates: Certificates
) -> Iterator[ApacheKafkaServer]:
    server = start_apache_kafka(
        tmp_path_factory.mktemp("secured"), broker_settings(certificates), ("SASL_SSL", "SSL")
    )
    try:
        with Admin(bootstrap_servers=server.bootstrap_servers) as admin:
            passwords = [
                NewPassword("alice", PASSWORD, each) for each in (SCRAM_SHA_256, SCRAM_SHA_512)
            ]
            assert admin.alter_users(passwords).check() == {"alice": None}
        yield server
    finally:
        server.stop()


def address(kafka: ApacheKafkaServer, listener: str) -> str:
    return f"{kafka.host}:{kafka.ports[listener]}"


@pytest.fixture
def alice(kafka: ApacheKafkaServer, certificates: Certificates) -> dict[str, Any]:
    """Settings of a client of hers."""
    return {
        "bootstrap_servers": address(kafka, "SASL_SSL"),
        "security_protocol": "SASL_SSL",
        "ssl_truststore_location": certificates.authority,
        "sasl_mechanism": SCRAM_SHA_512,
        "sasl_username": "alice",
        "sasl_password": PASSWORD,
    }


def round_trip(settings: dict[str, Any]) -> None:
    """Every class of client publishes or reads."""
    topic = new_topic("secured")
    with Admin(**settings) as admin, Producer(audit=False, **settings) as producer:
        admin.create_topic(topic)
        values = [b"%d" % number for number in range(50)]
        producer.send_many(topic, values).result(SECONDS)
    with SimpleConsumer(**settings) as simple:
        assert simple.fetch(topic, 0, 0).values() == values
    with ConsumerConnector(group=f"readers-of-{topic}", **settings) as consumer:
        (stream,) = consumer.create_message_streams({topic: 1})[topic]
        assert [next(stream).value for _ in values] == values


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_every_mechanism(kafka: ApacheKafkaServer, alice: dict[str, Any], mechanism: str) -> None:
    round_trip(alice | {"sasl_mechanism": mechanism})


def test_mutual_tls(kafka: ApacheKafkaServer, certificates: Certificates) -> None:
    settings: dict[str, Any] = {
        "bootstrap_servers": address(kafka, "SSL"),
        "security_protocol": "SSL",
        "ssl_truststore_location": certificates.authority,
    }
    round_trip(settings | {"ssl_keystore_location": certificates.alice})
    for keystore in (None, certificates.stranger):
        with (
            Admin(**settings, ssl_keystore_location=keystore, request_timeout_ms=3000) as admin,
            pytest.raises(ConnectError, match="tls failed"),
        ):
            admin.topics()


@pytest.mark.parametrize(
    "changed",
    [{"sasl_password": "wr0ng-one"}, {"sasl_username": "bob"}, {"sasl_mechanism": SCRAM_SHA_256}],
)
def test_who_is_not_let_in_is_told(alice: dict[str, Any], changed: dict[str, str]) -> None:
    wrong = alice | {"sasl_password": "wr0ng-one"} | changed
    with (
        Admin(request_timeout_ms=5000, **wrong) as admin,
        pytest.raises(AuthenticationError, match=r"sasl failed.*are name and password right"),
    ):
        admin.topics()


@pytest.mark.soak
def test_a_session_that_the_broker_limits_is_gone_on_with(
    kafka: ApacheKafkaServer, alice: dict[str, Any]
) -> None:
    """The broker ends a session after REAUTHENTICATION_MS. Clients log in again on the connection
    that is open (KIP-368), what they send meanwhile waits, and nothing is lost or there twice."""
    topic = new_topic("limited")
    count = 0
    until = time.monotonic() + 2.5 * REAUTHENTICATION_MS / 1000
    with Producer(audit=False, **alice) as producer, SimpleConsumer(**alice) as consumer:
        while time.monotonic() < until:
            assert producer.send(topic, b"%d" % count).result(SECONDS).offset == count
            count += 1
            assert consumer.fetch(topic, 0, count - 1).values() == [b"%d" % (count - 1)]
            time.sleep(0.05)
        assert consumer.fetch(topic, 0, 0).values() == [b"%d" % n for n in range(count)]


def test_the_commands(kafka: ApacheKafkaServer, certificates: Certificates, tmp_path: Path) -> None:
    """Users and entries made by commands are in force; a file of Kafka's settings logs in."""
    plain = ("--bootstrap-server", kafka.bootstrap_servers)
    password = tmp_path / "password"
    password.write_text("p4ss word")
    run_command(users.command, "add", "carol", "--password-file", str(password), *plain)
    assert "carol" in run_command(users.command, "list", *plain).output
    config = tmp_path / "client.properties"
    config.write_text(
        "security.protocol=SASL_SSL\n"
        f"ssl.truststore.location={certificates.authority}\n"
        "sasl.mechanism=SCRAM-SHA-512\n"
        "sasl.jaas.config=org.apache.kafka.common.security.scram.ScramLoginModule required "
        'username="carol" password="p4ss word";\n'
    )
    secured = ("--bootstrap-server", address(kafka, "SASL_SSL"), "--command-config", str(config))
    lines = tmp_path / "lines"
    lines.write_text("one\ntwo\n")
    topic = new_topic("guarded")
    run_command(topics.command, "create", topic, *secured)
    run_command(produce.command, topic, "--input", str(lines), *secured)
    where = ("--topic", topic)
    run_command(acls.command, "add", "--deny", "User:carol", "--operation", "read", *where, *plain)
    assert "User:carol" in run_command(acls.command, "list", "--topic", topic, *plain).output
    reading = ("--from-beginning", "--until-end", *secured)
    with pytest.raises(KafkaError, match="TOPIC_AUTHORIZATION_FAILED"):
        run_command(consume.command, topic, *reading)
    run_command(acls.command, "remove", "--principal", "User:carol", *where, *plain)
    assert run_command(consume.command, topic, *reading).stdout == "one\ntwo\n"
