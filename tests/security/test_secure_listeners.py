"""Listeners of all kinds, spoken to byte by byte and by our own stream."""

from __future__ import annotations

import asyncio
import logging
import shutil
import socket
import ssl
import struct
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from eventually import eventually
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from security_world import PASSWORD, Certificates, add_users, log_in, make_certificates

from tallymark.broker.security.file_store import FileSecurityStore
from tallymark.errors import CODES, ConnectError
from tallymark.net.client.connect import connect
from tallymark.net.sasl.mechanisms import MECHANISMS, SaslCredentials
from tallymark.net.sasl.scram import ScramClient
from tallymark.net.tls.contexts import client_context
from tallymark.protocol.acls.entry import Acl
from tallymark.protocol.acls.words import Operation, Pattern, ResourceType
from tallymark.protocol.messages import (
    ApiVersionsRequest,
    MetadataRequest,
    MetadataRequestTopic,
    SaslAuthenticateRequest,
    SaslHandshakeRequest,
)
from tallymark.testing.broker_thread import BrokerThread
from tallymark.testing.wire import WireClient

LISTENERS = ",".join(
    f"{name}://127.0.0.1:0" for name in ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
)


@pytest.fixture(scope="module")
def broker(
    tmp_path_factory: pytest.TempPathFactory, certificates: Certificates
) -> Iterator[BrokerThread]:
    folder = tmp_path_factory.mktemp("data")
    add_users(folder / "broker", "alice")
    with BrokerThread(
        folder,
        listeners=LISTENERS,
        ssl_keystore_location=str(certificates.broker),
        ssl_truststore_location=str(certificates.authority),
        ssl_client_auth="required",
        ssl_handshake_timeout_ms=3_000,
        sasl_enabled_mechanisms=",".join(MECHANISMS),
        connection_failed_authentication_delay_ms=20,
    ) as running:
        yield running


def address(broker: BrokerThread, listener: str) -> str:
    assert broker.broker is not None
    return str(broker.broker.listeners.servers[listener].address)


def held(broker: BrokerThread) -> int:
    assert broker.broker is not None
    return broker.broker.listeners.quota.open


async def told(
    broker: BrokerThread,
    listener: str,
    tls: ssl.SSLContext | None = None,
    sasl: SaslCredentials | None = None,
) -> str:
    """Connect by our stream; the address that Metadata tells."""
    host, _, port = address(broker, listener).rpartition(":")
    stream = await connect(host, int(port), 5.0, tls=tls, sasl=sasl)
    try:
        answer = await stream.request(MetadataRequest(topics=()))
        return f"{answer.brokers[0].host}:{answer.brokers[0].port}"
    finally:
        await stream.close()


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_our_stream_logs_in_and_is_told_the_listener_it_came_by(
    broker: BrokerThread, certificates: Certificates, mechanism: str
) -> None:
    alice = SaslCredentials("alice", PASSWORD, mechanism)
    tls = client_context(certificates.authority)
    plain = asyncio.run(told(broker, "SASL_PLAINTEXT", sasl=alice))
    assert plain == address(broker, "SASL_PLAINTEXT")
    secured = asyncio.run(told(broker, "SASL_SSL", sasl=alice, tls=tls))
    assert secured == address(broker, "SASL_SSL")


def test_mutual_tls(broker: BrokerThread, certificates: Certificates) -> None:
    tls = client_context(certificates.authority, certificates.alice)
    assert asyncio.run(told(broker, "SSL", tls=tls)) == address(broker, "SSL")
    for wrong in (
        client_context(certificates.authority),
        client_context(certificates.authority, certificates.stranger),
    ):
        with pytest.raises(ConnectError):
            asyncio.run(told(broker, "SSL", tls=wrong))
    with pytest.raises(ConnectError, match=r"tls failed.*truststore"):
        asyncio.run(told(broker, "SSL", tls=client_context(certificates.stranger)))


@pytest.mark.parametrize("mechanism", MECHANISMS)
@pytest.mark.parametrize(("user", "password"), [("alice", "wrong"), ("nobody", PASSWORD)])
def test_a_wrong_password_is_told_as_such(
    broker: BrokerThread, mechanism: str, user: str, password: str
) -> None:
    wrong = SaslCredentials(user, password, mechanism)
    with pytest.raises(ConnectError, match=r"sasl failed.*are name and password right") as raised:
        asyncio.run(told(broker, "SASL_PLAINTEXT", sasl=wrong))
    assert password not in str(raised.value)


def test_nothing_but_the_log_in_is_served_before_it(broker: BrokerThread) -> None:
    with WireClient(address(broker, "SASL_PLAINTEXT")) as client:
        assert client.ask(ApiVersionsRequest(), 0).error_code == 0
        client.send(MetadataRequest(), 1)
        assert client.closed_by_peer()
    with WireClient(address(broker, "SASL_PLAINTEXT")) as client:
        assert client.ask(SaslHandshakeRequest(mechanism="PLAIN"), 1).error_code == 0
        client.send(MetadataRequest(), 1)
        assert client.closed_by_peer()
    with WireClient(address(broker, "SASL_PLAINTEXT")) as client:
        assert log_in(client, "alice") == 0
        assert client.ask(MetadataRequest(topics=()), 1).brokers


def test_steps_out_of_their_order(broker: BrokerThread) -> None:
    illegal = CODES["ILLEGAL_SASL_STATE"]
    with WireClient(address(broker, "SASL_PLAINTEXT")) as client:
        assert client.ask(SaslAuthenticateRequest(auth_bytes=b"x"), 0).error_code == illegal
        answer = client.ask(SaslHandshakeRequest(mechanism="GSSAPI"), 1)
        assert answer.error_code == CODES["UNSUPPORTED_SASL_MECHANISM"]
        assert tuple(answer.mechanisms) == MECHANISMS
        assert log_in(client, "alice") == 0
        assert client.ask(SaslHandshakeRequest(mechanism="PLAIN"), 1).error_code == illegal
        assert client.ask(SaslAuthenticateRequest(auth_bytes=b"x"), 2).error_code == illegal
        assert client.ask(MetadataRequest(topics=()), 1).brokers
    with WireClient(address(broker, "PLAINTEXT")) as client:
        assert client.ask(SaslHandshakeRequest(mechanism="PLAIN"), 1).error_code == illegal
        assert client.ask(SaslAuthenticateRequest(auth_bytes=b"x"), 1).error_code == illegal


def test_a_failed_log_in_is_answered_and_the_connection_closed(broker: BrokerThread) -> None:
    with WireClient(address(broker, "SASL_PLAINTEXT")) as client:
        assert log_in(client, "alice", "wrong") == CODES["SASL_AUTHENTICATION_FAILED"]
        assert client.closed_by_peer()


def test_the_answer_does_not_tell_a_wrong_name_from_a_wrong_password(
    broker: BrokerThread,
) -> None:
    answers: list[tuple[int, str | None]] = []
    for user in ("alice", "nobody"):
        with WireClient(address(broker, "SASL_PLAINTEXT")) as client:
            client.ask(SaslHandshakeRequest(mechanism="SCRAM-SHA-256"), 1)
            scram = ScramClient("SCRAM-SHA-256", user, "wrong", "nonce")
            first = client.ask(SaslAuthenticateRequest(auth_bytes=scram.first()), 2)
            assert first.error_code == 0
            proof = scram.respond(bytes(first.auth_bytes))
            assert proof is not None
            last = client.ask(SaslAuthenticateRequest(auth_bytes=proof), 2)
            answers.append((last.error_code, last.error_message))
    assert answers[0] == answers[1]


def test_tokens_without_requests_around_them(broker: BrokerThread) -> None:
    """Clients of before 1.0 send a handshake of version 0, then bare tokens."""
    with WireClient(address(broker, "SASL_PLAINTEXT")) as client:
        scram = ScramClient("SCRAM-SHA-512", "alice", PASSWORD, "nonce")
        client.ask(SaslHandshakeRequest(mechanism="SCRAM-SHA-512"), 0)
        token: bytes | None = scram.first()
        while token is not None:
            client.send_bytes(struct.pack(">i", len(token)) + token)
            token = scram.respond(client.frame())
        assert client.ask(MetadataRequest(topics=()), 1).brokers
    with WireClient(address(broker, "SASL_PLAINTEXT")) as client:
        client.ask(SaslHandshakeRequest(mechanism="PLAIN"), 0)
        client.send_bytes(struct.pack(">i", 9) + b"\0alice\0no")
        assert client.closed_by_peer()


def test_a_large_request_is_refused_until_somebody_has_logged_in(broker: BrokerThread) -> None:
    with WireClient(address(broker, "SASL_PLAINTEXT")) as client:
        client.send_bytes(struct.pack(">i", 600_000))
        assert client.closed_by_peer()
    with WireClient(address(broker, "SASL_PLAINTEXT")) as client:
        assert log_in(client, "alice") == 0
        client.send_bytes(struct.pack(">ihhih", 600_000, 3, 1, 7, -1) + bytes(600_000 - 10))
        assert client.frame()[:4] == struct.pack(">i", 7)


@settings(
    max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(st.sampled_from(MECHANISMS), st.integers(0, 1), st.lists(st.binary(max_size=80), max_size=3))
def test_bad_tokens_only_ever_end_their_own_connection(
    broker: BrokerThread, mechanism: str, version: int, tokens: list[bytes]
) -> None:
    with WireClient(address(broker, "SASL_PLAINTEXT")) as client:
        client.ask(SaslHandshakeRequest(mechanism=mechanism), version)
        try:
            for token in tokens:
                if version:
                    client.ask(SaslAuthenticateRequest(auth_bytes=token), 1)
                else:
                    client.send_bytes(struct.pack(">i", len(token)) + token)
                    client.frame()
        except ConnectionError:
            pass
    with WireClient(address(broker, "SASL_PLAINTEXT")) as client:
        assert log_in(client, "alice") == 0


def test_a_handshake_that_never_ends_is_given_up_and_counted(
    broker: BrokerThread, caplog: pytest.LogCaptureFixture
) -> None:
    """Connections of the tests before may still be held for a moment."""
    eventually(lambda: held(broker) == 0, what="no connection is held")
    host, _, port = address(broker, "SSL").rpartition(":")
    with socket.create_connection((host, int(port)), 10) as stalled:
        eventually(lambda: held(broker) == 1, every=0.005, what="the stalled one is held")
        assert stalled.recv(1) == b""
    eventually(lambda: held(broker) == 0, what="it is given up")


def test_plain_bytes_at_a_tls_listener_close_the_connection(broker: BrokerThread) -> None:
    with WireClient(address(broker, "SSL")) as client:
        client.send(ApiVersionsRequest(), 0)
        assert client.closed_by_peer()
    assert asyncio.run(told(broker, "PLAINTEXT")) == address(broker, "PLAINTEXT")


def test_a_certificate_says_who_it_is(tmp_path: Path, certificates: Certificates) -> None:
    """Alice may do what the list allows the user that a rule makes of her certificate's name."""
    entry = Acl(ResourceType.TOPIC, "t", Pattern.LITERAL, "User:alice", "*", Operation.CREATE, True)
    FileSecurityStore(tmp_path / "broker").change_acls(
        add=[entry, replace(entry, operation=Operation.DESCRIBE)]
    )
    tls = client_context(certificates.authority, certificates.alice)

    async def codes(broker: BrokerThread) -> list[int]:
        host, _, port = address(broker, "SSL").rpartition(":")
        stream = await connect(host, int(port), 5.0, tls=tls)
        asked = tuple(MetadataRequestTopic(name=name) for name in ("t", "other"))
        try:
            answer = await stream.request(MetadataRequest(topics=asked))
        finally:
            await stream.close()
        return [topic.error_code for topic in answer.topics]

    denied = CODES["TOPIC_AUTHORIZATION_FAILED"]
    for rules, expected in (("DEFAULT", [denied] * 2), ("RULE:^CN=([^,]+),.*/$1/", [0, denied])):
        with BrokerThread(
            tmp_path,
            listeners="SSL://127.0.0.1:0",
            ssl_keystore_location=str(certificates.broker),
            ssl_truststore_location=str(certificates.authority),
            ssl_client_auth="required",
            ssl_principal_mapping_rules=rules,
            authorizer_enable=True,
        ) as broker:
            assert asyncio.run(codes(broker)) == expected


def test_certificates_are_taken_up_while_the_broker_runs(tmp_path: Path) -> None:
    used = tmp_path / "used.pem"
    old, new = (make_certificates(folder) for folder in (tmp_path / "old", tmp_path / "new"))
    shutil.copy(old.broker, used)
    with BrokerThread(
        tmp_path, listeners="SSL://127.0.0.1:0", ssl_keystore_location=str(used)
    ) as broker:
        assert broker.broker is not None
        listeners = broker.broker.listeners

        async def reload() -> None:
            listeners.reload_certificates()

        asyncio.run(told(broker, "SSL", tls=client_context(old.authority)))
        shutil.copy(new.broker, used)
        broker.call(reload())
        asyncio.run(told(broker, "SSL", tls=client_context(new.authority)))
        used.write_text("broken")
        broker.call(reload())
        asyncio.run(told(broker, "SSL", tls=client_context(new.authority)))


def test_the_password_is_in_no_log(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG):
        add_users(tmp_path / "broker", "alice")
        with (
            BrokerThread(
                tmp_path, listeners="SASL_PLAINTEXT://127.0.0.1:0", sasl_enabled_mechanisms="PLAIN"
            ) as broker,
            WireClient(address(broker, "SASL_PLAINTEXT")) as client,
        ):
            assert log_in(client, "alice", "hunter2hunter2")
    assert "log-in failed" in caplog.text
    assert "hunter2" not in caplog.text


def test_tls_1_1_is_not_spoken(broker: BrokerThread, certificates: Certificates) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    context.set_ciphers("ALL:@SECLEVEL=0")
    with pytest.warns(DeprecationWarning, match="TLSv1_1"):
        context.minimum_version = ssl.TLSVersion.TLSv1_1
    with pytest.warns(DeprecationWarning, match="TLSv1_1"):
        context.maximum_version = ssl.TLSVersion.TLSv1_1
    host, _, port = address(broker, "SASL_SSL").rpartition(":")
    with socket.create_connection((host, int(port)), 10) as sock, pytest.raises(ssl.SSLError):
        context.wrap_socket(sock)


def test_one_limit_of_connections_for_all_listeners(tmp_path: Path) -> None:
    listeners = "PLAINTEXT://127.0.0.1:0,SASL_PLAINTEXT://127.0.0.1:0"
    with (
        BrokerThread(tmp_path, listeners=listeners, max_connections_per_ip=2) as broker,
        WireClient(address(broker, "PLAINTEXT")) as first,
        WireClient(address(broker, "SASL_PLAINTEXT")) as second,
    ):
        first.ask(ApiVersionsRequest(), 0)
        second.ask(ApiVersionsRequest(), 0)
        with WireClient(address(broker, "PLAINTEXT")) as third:
            assert third.closed_by_peer()
