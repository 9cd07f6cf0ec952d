"""Clients that log in by token: ours, librdkafka and, in test_oauth_java.py, Java's."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import confluent_kafka
import pytest
from eventually import eventually
from security_world import PASSWORD, add_users, log_in
from token_world import AUDIENCE, CLIENT, Issuer, TokenServer, token_server, token_settings

from tallymark.broker.settings.broker import BrokerSettings
from tallymark.client import Admin, AsyncProducer, ConsumerConnector, Producer, SimpleConsumer
from tallymark.client.core.security.deployment import security_settings
from tallymark.client.core.security.oauth_tokens import TokenEndpoint
from tallymark.client.core.security.properties import security_of_properties
from tallymark.deployment import ClusterSecurity
from tallymark.errors import CODES, AuthenticationError, ConnectError, UserError
from tallymark.protocol.messages import (
    MetadataRequest,
    SaslAuthenticateRequest,
    SaslHandshakeRequest,
)
from tallymark.testing.broker_thread import BrokerThread
from tallymark.testing.wire import WireClient


@pytest.fixture(scope="module")
def issuer() -> Issuer:
    return Issuer()


@pytest.fixture(scope="module")
def server(issuer: Issuer) -> Iterator[TokenServer]:
    with token_server(issuer) as running:
        yield running


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory, server: TokenServer) -> Iterator[BrokerThread]:
    folder = tmp_path_factory.mktemp("data")
    add_users(folder / "broker", "bob")
    with BrokerThread(folder, **token_settings(f"{server.url}/keys")) as running:
        yield running


def by_token(broker: BrokerThread, **more: Any) -> dict[str, Any]:
    return {
        "bootstrap_servers": broker.bootstrap_servers,
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": "OAUTHBEARER",
    } | more


def from_endpoint(broker: BrokerThread, server: TokenServer) -> dict[str, Any]:
    return by_token(
        broker,
        sasl_oauthbearer_token_endpoint_url=f"{server.url}/token",
        sasl_oauthbearer_client_credentials_client_id=CLIENT[0],
        sasl_oauthbearer_client_credentials_client_secret=CLIENT[1],
        sasl_oauthbearer_scope="kafka",
    )


def again(broker: BrokerThread) -> int:
    """How often clients logged in again."""
    assert broker.broker is not None
    assert broker.broker.state is not None
    return broker.broker.state.logins.counts["again"]


def test_every_client_of_ours(broker: BrokerThread, server: TokenServer) -> None:
    given = from_endpoint(broker, server)
    with Admin(**given) as admin, Producer(audit=False, **given) as producer:
        admin.create_topic("ours")
        assert producer.send("ours", b"x").result(30).offset == 0
    with SimpleConsumer(**given) as consumer:
        assert [record.value for record in consumer.fetch("ours", 0, 0).records()] == [b"x"]
    with ConsumerConnector(group="g", coordinator="brokers", **given) as connector:
        (stream,) = connector.create_message_streams({"ours": 1})["ours"]
        assert next(stream).value == b"x"

    async def send() -> int:
        async with AsyncProducer(audit=False, **given) as producer:
            return (await producer.send_and_wait("ours", b"y")).offset

    assert asyncio.run(send()) == 1
    assert server.forms[-1] == {"grant_type": ["client_credentials"], "scope": ["kafka"]}


def test_a_token_in_a_file_and_one_of_the_application(
    broker: BrokerThread, issuer: Issuer, tmp_path: Path
) -> None:
    file = tmp_path / "token file"
    file.write_text(issuer.token() + "\n")
    given = by_token(broker, sasl_oauthbearer_token_endpoint_url=file.as_uri())
    with Admin(**given) as admin:
        admin.topics()
    with Admin(**by_token(broker, sasl_oauthbearer_token_provider=issuer.token)) as admin:
        admin.topics()


@pytest.mark.parametrize(
    ("token", "said"),
    [
        (lambda issuer: issuer.token(exp=5), "its log says more"),
        (lambda issuer: Issuer().token(), "its log says more"),
        (lambda issuer: "no token", "is none"),
        (lambda issuer: "", "a text with a token is wanted"),
    ],
)
def test_who_has_no_good_token_is_told_at_once(
    broker: BrokerThread,
    issuer: Issuer,
    token: Any,
    said: str,
    caplog: pytest.LogCaptureFixture,
) -> None:
    given = by_token(broker, sasl_oauthbearer_token_provider=lambda: token(issuer))
    with (
        caplog.at_level(logging.WARNING),
        Admin(request_timeout_ms=3000, **given) as admin,
        pytest.raises(AuthenticationError, match=said),
    ):
        admin.topics()
    assert issuer.token().rpartition(".")[0][:60] not in caplog.text


def test_an_endpoint_that_gives_no_token(server: TokenServer, tmp_path: Path) -> None:
    """A wrong secret is final, an endpoint that is away is tried again; neither shows a secret."""
    with pytest.raises(AuthenticationError, match="invalid_client") as wrong:
        TokenEndpoint(f"{server.url}/token", CLIENT[0], "wr0ng")()
    assert "wr0ng" not in str(wrong.value)
    with pytest.raises(ConnectError, match="token failed") as away:
        TokenEndpoint("http://127.0.0.1:1/token", *CLIENT)()
    assert not isinstance(away.value, AuthenticationError)
    assert CLIENT[1] not in str(away.value)


def test_one_token_serves_all_connections_until_it_is_old(server: TokenServer) -> None:
    now = 1000.0
    endpoint = TokenEndpoint(f"{server.url}/token", *CLIENT, now=lambda: now)
    asked = len(server.forms)
    assert len({endpoint() for _ in range(5)}) == 1
    assert len(server.forms) == asked + 1
    now += 0.9 * server.issuer.lifetime
    endpoint()
    assert len(server.forms) == asked + 2


def test_a_new_key_of_the_issuer_is_found(tmp_path: Path) -> None:
    """The issuer began to sign with a new key: the broker looks at once, nobody is sent away."""
    issuer = Issuer()
    with (
        token_server(issuer) as server,
        BrokerThread(tmp_path, **token_settings(f"{server.url}/keys")) as broker,
    ):
        given = by_token(broker, sasl_oauthbearer_token_provider=issuer.token)
        assert broker.broker is not None
        assert broker.broker.state is not None
        oauth = broker.broker.state.logins._oauth
        assert oauth is not None
        oauth.keys._asked_at = -1000.0
        issuer.rotate("two")
        with Admin(**given) as admin:
            admin.topics()
        assert server.asked == ["/keys", "/keys"]


def test_a_session_that_ends_without_a_new_log_in_is_closed(
    broker: BrokerThread, issuer: Issuer
) -> None:
    """Somebody whose token was good for two seconds stayed for as long as the connection: now it is
    told for how long it is, and is closed then (KIP-368)."""
    with WireClient(broker.bootstrap_servers) as client:
        began = time.monotonic()
        assert 0 < shown(client, issuer.token(exp=time.time() + 4)) <= 4000
        assert client.ask(MetadataRequest(topics=()), 9).brokers
        with pytest.raises((ConnectionError, EOFError)):
            ask_until(client, began + 60)
        assert time.monotonic() - began > 3.0


def ask_until(client: WireClient, deadline: float) -> None:
    while time.monotonic() < deadline:
        client.ask(MetadataRequest(topics=()), 9)
        time.sleep(0.05)


def shown(client: WireClient, token: str, code: int = 0) -> int:
    """Show a token; the lifetime that is answered."""
    shaken = client.ask(SaslHandshakeRequest(mechanism="OAUTHBEARER"), 1)
    assert shaken.error_code == 0
    message = f"n,,\x01auth=Bearer {token}\x01\x01".encode()
    answer = client.ask(SaslAuthenticateRequest(auth_bytes=message), 2)
    if code and not answer.error_code:
        answer = client.ask(SaslAuthenticateRequest(auth_bytes=b"\x01"), 2)
    assert answer.error_code == code
    return answer.session_lifetime_ms


def test_logging_in_again_renews_the_session(broker: BrokerThread, issuer: Issuer) -> None:
    with WireClient(broker.bootstrap_servers) as client:
        shown(client, issuer.token(exp=time.time() + 4))
        refused = client.ask(SaslHandshakeRequest(mechanism="OAUTHBEARER"), 1)
        assert refused.error_code == CODES["ILLEGAL_SASL_STATE"]  # too soon
        time.sleep(1.1)
        refused = client.ask(SaslHandshakeRequest(mechanism="PLAIN"), 1)
        assert refused.error_code == CODES["ILLEGAL_SASL_STATE"]  # another mechanism
        assert shown(client, issuer.token(exp=time.time() + 60)) > 50_000
        time.sleep(3.2)
        assert client.ask(MetadataRequest(topics=()), 9).brokers


def test_nobody_becomes_somebody_else_on_an_open_connection(
    broker: BrokerThread, issuer: Issuer
) -> None:
    """A connection of alice showed a token of bob: what was asked before would count as his."""
    with WireClient(broker.bootstrap_servers) as client:
        shown(client, issuer.token("alice"))
        time.sleep(1.1)
        shown(client, issuer.token("bob"), CODES["SASL_AUTHENTICATION_FAILED"])
        with pytest.raises((ConnectionError, EOFError)):
            client.ask(MetadataRequest(topics=()), 9)


def test_our_clients_log_in_again_while_they_work(tmp_path: Path) -> None:
    """Tokens hold for 4 s, the producer sends for 10: nothing is lost, nothing comes twice, and the
    order holds; the connection is the same one."""
    issuer = Issuer()
    issuer.lifetime = 4.0
    with (
        token_server(issuer) as server,
        BrokerThread(tmp_path, **token_settings(f"{server.url}/keys")) as broker,
    ):
        given = from_endpoint(broker, server)
        with Producer(audit=False, linger_ms=1, **given) as producer:
            sent: list[Any] = []
            began = time.monotonic()
            # A busy machine may be too late for one of its log-ins, and connects anew.
            while time.monotonic() < began + (10 if again(broker) >= 2 else 60):
                sent.append(producer.send("again", b"%d" % len(sent)))
                time.sleep(0.005)
            assert [each.result(30).offset for each in sent] == list(range(len(sent)))
        assert again(broker) >= 2
        with SimpleConsumer(**given) as consumer:
            offset, found = 0, []
            while offset < len(sent):
                records = list(consumer.fetch("again", 0, offset).records())
                found += [record.value for record in records]
                offset += len(records)
        assert found == [b"%d" % n for n in range(len(sent))]


def test_passwords_too_have_to_be_shown_again_if_the_broker_says_so(tmp_path: Path) -> None:
    add_users(tmp_path / "broker", "bob")
    with BrokerThread(
        tmp_path, listeners="SASL_PLAINTEXT://127.0.0.1:0", connections_max_reauth_ms=3000
    ) as broker:
        given = by_token(broker) | {
            "sasl_mechanism": "SCRAM-SHA-512",
            "sasl_username": "bob",
            "sasl_password": PASSWORD,
        }
        with Admin(**given) as admin:
            eventually(lambda: admin.topics() is not None and again(broker) >= 1)
            admin.topics()


@pytest.mark.soak
def test_librdkafka(broker: BrokerThread, issuer: Issuer) -> None:
    """By the application's callback; it shows new tokens on its own."""
    principals: list[str] = []

    def oauth_cb(config: str) -> tuple[str, float]:
        principals.append("asked")
        ends = time.time() + 4
        return issuer.token(exp=ends), ends

    config = {
        "bootstrap.servers": broker.bootstrap_servers,
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanisms": "OAUTHBEARER",
        "oauth_cb": oauth_cb,
    }
    before = again(broker)
    failed: list[Any] = []
    producer = confluent_kafka.Producer(config)
    sent = 0
    ends = time.monotonic() + 7
    while time.monotonic() < ends:
        producer.produce("rd", b"%d" % sent, on_delivery=lambda error, _: failed.append(error))
        sent += 1
        producer.poll(0.05)
    assert producer.flush(15) == 0
    producer.close()
    assert [error for error in failed if error is not None] == []
    assert again(broker) > before
    consumer = confluent_kafka.Consumer({**config, "group.id": "rd", "enable.auto.commit": False})
    consumer.assign([confluent_kafka.TopicPartition("rd", 0, 0)])
    found: list[Any] = []
    deadline = time.monotonic() + 60
    while len(found) < sent and time.monotonic() < deadline:
        found += [message.value() for message in consumer.consume(100, 0.5)]
    consumer.close()
    assert found == [b"%d" % n for n in range(sent)]


def test_librdkafka_with_a_wrong_token_fails_clearly(broker: BrokerThread) -> None:
    other, told = Issuer(), []

    def oauth_cb(config: str) -> tuple[str, float]:
        return other.token(), time.time() + 60

    producer = confluent_kafka.Producer(
        {
            "bootstrap.servers": broker.bootstrap_servers,
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanisms": "OAUTHBEARER",
            "oauth_cb": oauth_cb,
            "reconnect.backoff.ms": 10_000,
            "reconnect.backoff.max.ms": 10_000,
            "error_cb": lambda error: told.append(str(error)),
        }
    )
    producer.produce("never", b"x")
    deadline = time.monotonic() + 60
    while not told and time.monotonic() < deadline:
        producer.poll(0.1)
    producer.purge()
    producer.flush(5)
    producer.close()
    assert "SASL authentication error" in told[0] or "Authentication failed" in told[0]


def test_passwords_work_beside_tokens(broker: BrokerThread) -> None:
    with WireClient(broker.bootstrap_servers) as client:
        assert log_in(client, "bob") == 0


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({}, "none is given"),
        ({"sasl_oauthbearer_token_provider": "x"}, "cannot be called"),
        ({"sasl_oauthbearer_token_endpoint_url": "http://idp.example/t"}, "https://"),
        ({"sasl_oauthbearer_token_endpoint_url": "https://idp.example/t"}, "one is missing"),
        ({"sasl_oauthbearer_token_provider": str, "sasl_password": "x"}, "does not use it"),
        (
            {"sasl_mechanism": "PLAIN", "sasl_oauthbearer_token_provider": str},
            "does not use it",
        ),
    ],
)
def test_settings_of_clients_that_cannot_be(given: dict[str, Any], said: str) -> None:
    settings = {"security_protocol": "SASL_PLAINTEXT", "sasl_mechanism": "OAUTHBEARER"} | given
    with pytest.raises(UserError) as raised:
        Admin(bootstrap_servers="127.0.0.1:1", **settings)
    assert said in f"{raised.value} {raised.value.hint if hasattr(raised.value, 'hint') else ''}"


@pytest.mark.parametrize("url", ["", "http://idp.example/keys", "ftp://x/y", "file:keys", "x"])
def test_keys_that_anybody_could_exchange_stop_the_start(url: str) -> None:
    with pytest.raises(ValueError, match=r"sasl\.oauthbearer\.jwks\.endpoint\.url"):
        BrokerSettings(
            sasl_enabled_mechanisms="OAUTHBEARER", sasl_oauthbearer_jwks_endpoint_url=url
        )


def test_settings_by_the_names_of_java_librdkafka_and_the_deployment(tmp_path: Path) -> None:
    """One client.properties serves Kafka's tools and ours."""
    java = {
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "OAUTHBEARER",
        "sasl.oauthbearer.token.endpoint.url": "https://idp.example/token",
        "sasl.jaas.config": "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule "
        'required clientId="etl" clientSecret="s\\"x" scope="kafka";',
    }
    wanted = {
        "security_protocol": "SASL_SSL",
        "sasl_mechanism": "OAUTHBEARER",
        "sasl_oauthbearer_token_endpoint_url": "https://idp.example/token",
        "sasl_oauthbearer_client_credentials_client_id": "etl",
        "sasl_oauthbearer_client_credentials_client_secret": 's"x',
        "sasl_oauthbearer_scope": "kafka",
    }
    assert security_of_properties(java, "x") == wanted
    librdkafka = {
        "security.protocol": "SASL_SSL",
        "sasl.mechanisms": "OAUTHBEARER",
        "sasl.oauthbearer.token.endpoint.url": "https://idp.example/token",
        "sasl.oauthbearer.client.id": "etl",
        "sasl.oauthbearer.client.secret": 's"x',
        "sasl.oauthbearer.scope": "kafka",
    }
    assert security_of_properties(librdkafka, "x") == wanted
    secret = tmp_path / "secret"
    secret.write_text('s"x\n')
    deployed = ClusterSecurity(
        security_protocol="SASL_SSL",
        sasl_mechanism="OAUTHBEARER",
        sasl_oauthbearer_token_endpoint_url="https://idp.example/token",
        sasl_oauthbearer_client_credentials_client_id="etl",
        sasl_oauthbearer_client_credentials_client_secret_file=str(secret),
        sasl_oauthbearer_scope="kafka",
    )
    found = security_settings(deployed)
    assert {name: found[name] for name in wanted} == wanted  # type: ignore[literal-required]
    assert AUDIENCE not in str(found)
