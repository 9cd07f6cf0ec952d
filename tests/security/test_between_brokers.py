"""A broker connects to another one by TLS, mutual TLS, SCRAM and PLAIN, and says why it cannot."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import trustme
from security_world import PASSWORD, Certificates, add_users

from tallymark.broker.connections.outgoing import outgoing, read_again
from tallymark.broker.connections.sockets import SocketConnections
from tallymark.broker.metadata.image import BrokerImage
from tallymark.broker.settings.broker import BrokerSettings
from tallymark.broker.settings.listeners import Endpoint
from tallymark.errors import AuthenticationError, ConnectError
from tallymark.protocol.messages import MetadataRequest
from tallymark.testing.broker_thread import BrokerThread

NAMES = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
LISTENERS = ",".join(f"{name}://127.0.0.1:0" for name in NAMES)
MECHANISMS = "SCRAM-SHA-256,SCRAM-SHA-512,PLAIN"


@pytest.fixture(scope="module")
def other(
    tmp_path_factory: pytest.TempPathFactory, certificates: Certificates
) -> Iterator[BrokerThread]:
    """Broker 2."""
    folder = tmp_path_factory.mktemp("data")
    add_users(folder / "broker", "broker")
    with BrokerThread(
        folder,
        node_id=2,
        listeners=LISTENERS,
        ssl_keystore_location=str(certificates.broker),
        ssl_truststore_location=str(certificates.authority),
        ssl_client_auth="required",
        sasl_enabled_mechanisms=MECHANISMS,
        connection_failed_authentication_delay_ms=10,
    ) as running:
        yield running


@pytest.fixture
def given(certificates: Certificates) -> dict[str, Any]:
    """Settings of broker 1, without those of its user."""
    return {
        "node_id": 1,
        "listeners": LISTENERS,
        "ssl_keystore_location": str(certificates.broker),
        "ssl_truststore_location": str(certificates.authority),
        "sasl_enabled_mechanisms": MECHANISMS,
    }


def log_in(mechanism: str, password: str = PASSWORD) -> dict[str, Any]:
    return {
        "inter_broker_user": "broker",
        "inter_broker_password": password,
        "sasl_mechanism_inter_broker_protocol": mechanism,
    }


def settings_of(given: dict[str, Any], protocol: str) -> BrokerSettings:
    return BrokerSettings(**given | {"security_inter_broker_protocol": protocol})


def connections_to(other: BrokerThread, settings: BrokerSettings) -> SocketConnections:
    assert other.broker is not None
    found = SocketConnections(1, outgoing(settings), connect_timeout=5.0)
    found.brokers_changed({2: BrokerImage(2, other.broker.listeners.endpoints)})
    return found


def cluster_of(other: BrokerThread, settings: BrokerSettings) -> str | None:
    """What broker 2 answers broker 1."""

    async def main() -> str | None:
        connections = connections_to(other, settings)
        connection = await connections.open(2)
        answers = await asyncio.gather(
            *(connection.send(MetadataRequest(topics=()), 5_000) for _ in range(5))
        )
        await connections.close()
        return {answer.cluster_id for answer in answers}.pop()

    return asyncio.run(main())


def refused(other: BrokerThread, settings: BrokerSettings) -> ConnectError:
    async def main() -> ConnectError:
        with pytest.raises(ConnectError) as caught:
            await connections_to(other, settings).open(2)
        return caught.value

    error = asyncio.run(main())
    assert "broker 2" in str(error)
    assert PASSWORD not in str(error)
    assert not error.is_refused
    return error


@pytest.mark.parametrize("protocol", ["PLAINTEXT", "SSL"])
def test_without_a_log_in(other: BrokerThread, given: dict[str, Any], protocol: str) -> None:
    """By SSL the other broker asks for a certificate; the one of the own keystore is shown."""
    assert cluster_of(other, settings_of(given, protocol))


@pytest.mark.parametrize("protocol", ["SASL_PLAINTEXT", "SASL_SSL"])
@pytest.mark.parametrize("mechanism", MECHANISMS.split(","))
def test_with_a_log_in(
    other: BrokerThread, given: dict[str, Any], protocol: str, mechanism: str
) -> None:
    assert cluster_of(other, settings_of(given | log_in(mechanism), protocol))


@pytest.mark.parametrize("mechanism", MECHANISMS.split(","))
def test_a_wrong_password_is_not_let_in(
    other: BrokerThread, given: dict[str, Any], mechanism: str
) -> None:
    settings = BrokerSettings(
        **given, **log_in(mechanism, "wrong"), security_inter_broker_protocol="SASL_SSL"
    )
    error = refused(other, settings)
    assert isinstance(error, AuthenticationError)
    assert error.stage == "sasl"
    assert "wrong" not in str(error)


def test_without_a_user_nothing_is_tried(other: BrokerThread, given: dict[str, Any]) -> None:
    """A cluster of brokers with SASL listeners alone needs no user before there are replicas."""
    given["listeners"] = "SASL_SSL://127.0.0.1:0"
    error = refused(other, BrokerSettings(**given))
    assert isinstance(error, AuthenticationError)
    assert "set inter.broker.user and inter.broker.password" in str(error)


def test_a_broker_of_another_authority_is_not_trusted(
    other: BrokerThread, given: dict[str, Any], tmp_path: Path
) -> None:
    trustme.CA().cert_pem.write_to_path(str(tmp_path / "ca.pem"))
    given["ssl_truststore_location"] = str(tmp_path / "ca.pem")
    settings = BrokerSettings(**given, security_inter_broker_protocol="SSL")
    error = refused(other, settings)
    assert isinstance(error, AuthenticationError)
    assert error.stage == "tls"


def test_a_certificate_for_another_host_needs_the_setting(
    given: dict[str, Any], certificates: Certificates, tmp_path: Path
) -> None:
    authority = trustme.CA()
    authority.cert_pem.write_to_path(str(tmp_path / "ca.pem"))
    elsewhere = authority.issue_cert("elsewhere.example")
    elsewhere.private_key_and_cert_chain_pem.write_to_path(str(tmp_path / "elsewhere.pem"))
    given["ssl_truststore_location"] = str(tmp_path / "ca.pem")
    given["security_inter_broker_protocol"] = "SSL"
    with BrokerThread(
        tmp_path,
        node_id=2,
        listeners="SSL://127.0.0.1:0",
        ssl_keystore_location=str(tmp_path / "elsewhere.pem"),
    ) as other:
        assert isinstance(refused(other, BrokerSettings(**given)), AuthenticationError)
        assert cluster_of(other, BrokerSettings(**given, ssl_endpoint_identification_algorithm=""))


def test_a_listener_that_is_secured_in_another_way_is_not_used(
    given: dict[str, Any], other: BrokerThread
) -> None:
    """What the other broker registers must not decide whether the password is sent in the clear."""
    assert other.broker is not None
    endpoint = other.broker.listeners.endpoints["PLAINTEXT"]
    settings = BrokerSettings(**given, **log_in("PLAIN"), security_inter_broker_protocol="SASL_SSL")

    async def main() -> None:
        connections = SocketConnections(1, outgoing(settings))
        plain = {"SASL_SSL": Endpoint(endpoint.host, endpoint.port, "PLAINTEXT")}
        connections.brokers_changed({2: BrokerImage(2, plain)})
        with pytest.raises(ConnectError, match="is PLAINTEXT, here it is SASL_SSL"):
            await connections.open(2)

    asyncio.run(main())


def test_renewed_certificates_are_for_new_connections_and_broken_ones_for_none(
    given: dict[str, Any],
    certificates: Certificates,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    keystore = tmp_path / "broker.pem"
    keystore.write_bytes(certificates.broker.read_bytes())
    given["ssl_keystore_location"] = str(keystore)
    settings = BrokerSettings(**given, security_inter_broker_protocol="SSL")
    before = outgoing(settings)
    keystore.write_text("no PEM")
    with caplog.at_level(logging.ERROR):
        assert read_again(settings, before) is before
    assert "broker.pem" in caplog.text
    keystore.write_bytes(certificates.broker.read_bytes())
    assert read_again(settings, before).tls is not before.tls


def test_a_session_that_ends_is_renewed_on_the_open_connection(
    given: dict[str, Any], certificates: Certificates, tmp_path: Path
) -> None:
    """A fetcher's connection lives for weeks; the other broker closes what did not log in again."""
    add_users(tmp_path / "broker", "broker")
    settings = BrokerSettings(
        **given, **log_in("SCRAM-SHA-512"), security_inter_broker_protocol="SASL_SSL"
    )
    with BrokerThread(
        tmp_path,
        node_id=2,
        listeners="SASL_SSL://127.0.0.1:0",
        ssl_keystore_location=str(certificates.broker),
        connections_max_reauth_ms=3_000,
    ) as other:

        async def main() -> None:
            connections = connections_to(other, settings)
            connection = await connections.open(2)
            for _ in range(18):
                await connection.send(MetadataRequest(topics=()), 5_000)
                await asyncio.sleep(0.4)
            assert not connection.closed
            await connections.close()

        asyncio.run(main())
