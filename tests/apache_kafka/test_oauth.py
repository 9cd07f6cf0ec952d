"""Our clients log in by token to an Apache Kafka that checks JWTs by a key set (KIP-768)."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from broker_kinds import new_topic, start_apache_kafka
from commands import run_command
from token_world import AUDIENCE, CLIENT, ISSUER, Issuer, TokenServer, token_server

from tallymark.cli.messages import consume, produce
from tallymark.client import Admin, ConsumerConnector, Producer, SimpleConsumer
from tallymark.errors import AuthenticationError
from tallymark.processes.apache_kafka import ApacheKafkaServer

pytestmark = [pytest.mark.apache_kafka, pytest.mark.process]

SECONDS = 20.0
SESSION_MS = 3000
OAUTH = "org.apache.kafka.common.security.oauthbearer"
ALLOWED = "org.apache.kafka.sasl.oauthbearer.allowed.urls"
"""Since Kafka 4.0 a broker reads keys from nowhere that this property of its JVM does not name."""


@dataclass(frozen=True)
class World:
    """A broker, and who issues the tokens that it takes."""

    kafka: ApacheKafkaServer
    issuer: Issuer
    server: TokenServer

    def by_token(self, **more: Any) -> dict[str, Any]:
        """Settings of a client that logs in with a token."""
        return {
            "bootstrap_servers": f"{self.kafka.host}:{self.kafka.ports['SASL_PLAINTEXT']}",
            "security_protocol": "SASL_PLAINTEXT",
            "sasl_mechanism": "OAUTHBEARER",
        } | more

    def from_endpoint(self) -> dict[str, Any]:
        """The token comes from the issuer's endpoint."""
        return self.by_token(
            sasl_oauthbearer_token_endpoint_url=f"{self.server.url}/token",
            sasl_oauthbearer_client_credentials_client_id=CLIENT[0],
            sasl_oauthbearer_client_credentials_client_secret=CLIENT[1],
            sasl_oauthbearer_scope="kafka",
        )


def broker_settings(keys: str) -> dict[str, str]:
    """Tokens of the issuer, with the key set at ``keys``; sessions end."""
    login = "listener.name.sasl_plaintext.oauthbearer"
    return {
        "sasl.enabled.mechanisms": "OAUTHBEARER",
        f"{login}.sasl.jaas.config": f"{OAUTH}.OAuthBearerLoginModule required;",
        f"{login}.sasl.server.callback.handler.class": (
            f"{OAUTH}.OAuthBearerValidatorCallbackHandler"
        ),
        # The default of 4.1.0 is the client's: it looks at neither signature, issuer nor audience.
        "sasl.oauthbearer.jwt.validator.class": f"{OAUTH}.BrokerJwtValidator",
        f"{login}.connections.max.reauth.ms": str(SESSION_MS),
        "sasl.oauthbearer.jwks.endpoint.url": keys,
        "sasl.oauthbearer.expected.audience": AUDIENCE,
        "sasl.oauthbearer.expected.issuer": ISSUER,
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:ANONYMOUS;User:alice;User:etl",
    }


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    folder = tmp_path_factory.mktemp("by-token")
    issuer = Issuer()
    (folder / "keys.json").write_bytes(issuer.key_set())
    keys = (folder / "keys.json").as_uri()
    kafka = start_apache_kafka(
        folder / "kafka", broker_settings(keys), ("SASL_PLAINTEXT",), (f"-D{ALLOWED}={keys}",)
    )
    try:
        with token_server(issuer) as server:
            yield World(kafka, issuer, server)
    finally:
        kafka.stop()


def test_every_class_of_client(world: World) -> None:
    given, topic = world.from_endpoint(), new_topic("tokens")
    values = [b"%d" % number for number in range(50)]
    with Admin(**given) as admin, Producer(audit=False, **given) as producer:
        admin.create_topic(topic)
        producer.send_many(topic, values).result(SECONDS)
    with SimpleConsumer(**given) as simple:
        assert simple.fetch(topic, 0, 0).values() == values
    with ConsumerConnector(group=f"readers-of-{topic}", **given) as consumer:
        (stream,) = consumer.create_message_streams({topic: 1})[topic]
        assert [next(stream).value for _ in values] == values


def test_a_token_in_a_file_and_one_of_the_application(world: World, tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text(world.issuer.token() + "\n")
    for given in (
        {"sasl_oauthbearer_token_endpoint_url": file.as_uri()},
        {"sasl_oauthbearer_token_provider": world.issuer.token},
    ):
        with Admin(**world.by_token(**given)) as admin:
            admin.topics()


@pytest.mark.parametrize("wrong", ["expired", "another key", "another audience", "another issuer"])
def test_who_has_no_good_token_is_told(world: World, wrong: str) -> None:
    token = {
        "expired": world.issuer.token(iat=5, exp=65),
        "another key": Issuer().token(),
        "another audience": world.issuer.token(aud="others"),
        "another issuer": world.issuer.token(iss="https://others.example"),
    }[wrong]
    given = world.by_token(sasl_oauthbearer_token_provider=lambda: token)
    with (
        Admin(request_timeout_ms=5000, **given) as admin,
        pytest.raises(AuthenticationError, match=r"sasl failed.*is the token one for this broker"),
    ):
        admin.topics()


@pytest.mark.soak
def test_new_tokens_are_shown_on_the_open_connection(world: World) -> None:
    """The broker ends a session after SESSION_MS: clients show a token again on the connection that
    is open (KIP-368), and nothing is lost or there twice."""
    given, topic = world.from_endpoint(), new_topic("limited")
    count, until = 0, time.monotonic() + 2.5 * SESSION_MS / 1000
    with Producer(audit=False, **given) as producer, SimpleConsumer(**given) as consumer:
        while time.monotonic() < until:
            assert producer.send(topic, b"%d" % count).result(SECONDS).offset == count
            count += 1
            time.sleep(0.05)
        assert consumer.fetch(topic, 0, 0).values() == [b"%d" % n for n in range(count)]


def test_the_commands_with_kafkas_own_file(world: World, tmp_path: Path) -> None:
    """The client.properties that Kafka's tools take, which want the file's address allowed."""
    (tmp_path / "token").write_text(world.issuer.token() + "\n")
    config = tmp_path / "client.properties"
    config.write_text(
        "security.protocol=SASL_PLAINTEXT\n"
        "sasl.mechanism=OAUTHBEARER\n"
        f"sasl.jaas.config={OAUTH}.OAuthBearerLoginModule required;\n"
        f"sasl.oauthbearer.token.endpoint.url={(tmp_path / 'token').as_uri()}\n"
    )
    at = str(world.by_token()["bootstrap_servers"])
    where = ("--bootstrap-server", at, "--command-config", str(config))
    (tmp_path / "lines").write_text("one\ntwo\n")
    topic = new_topic("by-command")
    run_command(produce.command, topic, "--input", str(tmp_path / "lines"), *where)
    read = run_command(consume.command, topic, "--from-beginning", "--until-end", *where)
    assert read.stdout == "one\ntwo\n"
