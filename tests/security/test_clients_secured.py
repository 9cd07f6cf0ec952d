"""Every client class by TLS, mutual TLS and a log-in, and what it says when it is not let in."""

from __future__ import annotations

import logging
import socket
import threading
from collections.abc import Iterator
from typing import Any

import pytest
import trustme
from security_world import PASSWORD, Certificates, add_users

from tallymark.client import Admin, Producer, SimpleConsumer
from tallymark.client.core.security.security import PLAINTEXT, client_security
from tallymark.errors import AuthenticationError, ConnectError, TallymarkError, UserError
from tallymark.net.sasl.mechanisms import MECHANISMS
from tallymark.testing.broker_thread import BrokerThread

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
        sasl_enabled_mechanisms="SCRAM-SHA-256,SCRAM-SHA-512,PLAIN",
        connection_failed_authentication_delay_ms=10,
    ) as running:
        yield running


@pytest.fixture
def settings(certificates: Certificates) -> dict[str, Any]:
    return {
        "security_protocol": "SASL_SSL",
        "ssl_truststore_location": certificates.authority,
        "sasl_mechanism": "SCRAM-SHA-512",
        "sasl_username": "alice",
        "sasl_password": PASSWORD,
    }


def at(broker: BrokerThread, listener: str) -> str:
    assert broker.broker is not None
    return str(broker.broker.listeners.servers[listener].address)


def refused(servers: str, **settings: Any) -> ConnectError:
    """What an admin client says that cannot get in."""
    with (
        Admin(bootstrap_servers=servers, request_timeout_ms=3000, **settings) as admin,
        pytest.raises(ConnectError) as raised,
    ):
        admin.topics()
    assert PASSWORD not in str(raised.value)
    return raised.value


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_publish_and_read_with_a_log_in_and_tls(
    broker: BrokerThread, settings: dict[str, Any], mechanism: str
) -> None:
    given = settings | {"bootstrap_servers": at(broker, "SASL_SSL"), "sasl_mechanism": mechanism}
    topic = f"by-{mechanism.lower()}"
    with Admin(**given) as admin, Producer(audit=False, **given) as producer:
        admin.create_topic(topic)
        assert producer.send(topic, b"x").result(30).offset == 0
    with SimpleConsumer(**given) as consumer:
        assert [record.value for record in consumer.fetch(topic, 0, 0).records()] == [b"x"]


def test_publish_and_read_with_mutual_tls(broker: BrokerThread, certificates: Certificates) -> None:
    given: dict[str, Any] = {
        "bootstrap_servers": at(broker, "SSL"),
        "security_protocol": "SSL",
        "ssl_truststore_location": str(certificates.authority),
        "ssl_keystore_location": str(certificates.alice),
    }
    with Producer(audit=False, **given) as producer:
        assert producer.send("mutual", b"x").result(30).offset == 0
    with SimpleConsumer(**given) as consumer:
        assert consumer.end_offsets("mutual") == {0: 1}


@pytest.mark.parametrize(
    ("listener", "changed", "stage", "said"),
    [
        # a password that is wrong, a mechanism that is not enabled
        ("SASL_SSL", {"sasl_password": "wr0ng-one"}, "sasl", "are name and password right"),
        # an authority that is not trusted; a listener without TLS; one that wants a certificate
        ("SASL_SSL", {"ssl_truststore_location": None}, "tls", "ssl_truststore_location"),
        ("SASL_PLAINTEXT", {}, "tls", "is it a listener with TLS"),
        ("SSL", {}, "tls", "ssl_keystore_location"),
    ],
)
def test_who_is_not_let_in_is_told_the_stage_and_what_to_do(
    broker: BrokerThread,
    settings: dict[str, Any],
    listener: str,
    changed: dict[str, Any],
    stage: str,
    said: str,
) -> None:
    error = refused(at(broker, listener), **(settings | changed))
    assert f"{stage} failed" in str(error)
    assert said in str(error)
    assert at(broker, listener) in str(error)


def test_a_client_without_tls_at_a_listener_with_tls(broker: BrokerThread) -> None:
    error = refused(at(broker, "SSL"))
    assert "security_protocol=SSL" in str(error)


def test_a_tls_alert_is_read_as_one() -> None:
    """Java's brokers answer plain text with an alert, which is 369 MB when read as a length."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def answer() -> None:
            for _ in range(1):
                peer, _ = server.accept()
                with peer:
                    peer.recv(100)
                    peer.sendall(bytes.fromhex("15030300020246"))

        thread = threading.Thread(target=answer)
        thread.start()
        error = refused(f"127.0.0.1:{server.getsockname()[1]}")
        thread.join()
    assert "the listener speaks TLS: set security_protocol=SSL or SASL_SSL" in str(error)


def test_a_client_that_does_not_log_in_is_told_to(
    broker: BrokerThread, certificates: Certificates
) -> None:
    with (
        Admin(bootstrap_servers=at(broker, "SASL_PLAINTEXT"), request_timeout_ms=3000) as admin,
        pytest.raises(TallymarkError, match="does its listener expect a log-in"),
    ):
        admin.topics()


def test_a_log_in_where_none_is_asked_for(broker: BrokerThread, settings: dict[str, Any]) -> None:
    plain = {k: v for k, v in settings.items() if not k.startswith("ssl")}
    error = refused(at(broker, "PLAINTEXT"), **(plain | {"security_protocol": "SASL_PLAINTEXT"}))
    assert "sasl failed" in str(error)
    assert "is its listener one with SASL?" in str(error)


def test_a_mechanism_that_is_not_enabled(
    tmp_path: Any, certificates: Certificates, settings: dict[str, Any]
) -> None:
    add_users(tmp_path / "broker", "alice")
    with BrokerThread(
        tmp_path,
        listeners="SASL_SSL://127.0.0.1:0",
        ssl_keystore_location=str(certificates.broker),
        sasl_enabled_mechanisms="SCRAM-SHA-256",
    ) as broker:
        error = refused(at(broker, "SASL_SSL"), **settings)
    assert isinstance(error, AuthenticationError)
    assert "SCRAM-SHA-512; the broker offers SCRAM-SHA-256" in str(error)


def test_a_certificate_for_another_name(
    tmp_path: Any, certificates: Certificates, settings: dict[str, Any]
) -> None:
    authority = trustme.CA()
    authority.cert_pem.write_to_path(str(tmp_path / "ca.pem"))
    authority.issue_cert("broker.example").private_key_and_cert_chain_pem.write_to_path(
        str(tmp_path / "broker.pem")
    )
    given = {"security_protocol": "SSL", "ssl_truststore_location": tmp_path / "ca.pem"}
    with BrokerThread(
        tmp_path,
        listeners="SSL://127.0.0.1:0",
        ssl_keystore_location=str(tmp_path / "broker.pem"),
    ) as broker:
        error = refused(at(broker, "SSL"), **given)
        assert isinstance(error, AuthenticationError)
        assert 'ssl_endpoint_identification_algorithm=""' in str(error)
        given["ssl_endpoint_identification_algorithm"] = ""
        with Admin(bootstrap_servers=at(broker, "SSL"), **given) as admin:
            assert admin.topics() == {}


def test_a_wrong_password_is_not_tried_for_a_minute(
    broker: BrokerThread, settings: dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    """Brokers that are away are waited for; who is not let in is told now."""
    caplog.set_level(logging.DEBUG)
    given = settings | {"bootstrap_servers": at(broker, "SASL_SSL"), "sasl_password": "wr0ng-one"}
    with (
        Producer(audit=False, **given) as producer,
        pytest.raises(AuthenticationError) as raised,
    ):
        producer.send("t", b"x")
    assert "wr0ng-one" not in caplog.text + str(raised.value)


def test_no_repr_shows_a_secret(settings: dict[str, Any]) -> None:
    security = client_security(settings, Admin)
    assert security.protocol == "SASL_SSL"
    assert "alice" in repr(security)
    assert PASSWORD not in repr(security)
    assert client_security({}, Admin) == PLAINTEXT


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"security_protocol": "TLS"}, "give one of PLAINTEXT, SSL"),
        ({"ssl_truststore_location": "x"}, "security_protocol=PLAINTEXT does not use it"),
        ({"security_protocol": "SSL", "sasl_username": "x"}, "SASL_PLAINTEXT or SASL_SSL"),
        ({"security_protocol": "SASL_PLAINTEXT"}, "give one of PLAIN, SCRAM"),
        (
            {"security_protocol": "SASL_PLAINTEXT", "sasl_mechanism": "PLAIN"},
            "sasl_username is missing",
        ),
        (
            {"security_protocol": "SSL", "ssl_endpoint_identification_algorithm": "ldap"},
            "https",
        ),
        ({"security_protocol": "SSL", "ssl_truststore_location": "/no/such.pem"}, "/no/such.pem"),
        ({"security_protocol": "SSL", "ssl_keystore_location": __file__}, "no PEM file"),
    ],
)
def test_settings_that_cannot_be(given: dict[str, Any], said: str) -> None:
    with pytest.raises(UserError, match=r"^(Admin\(\)|/|cannot)") as raised:
        Admin(bootstrap_servers="h:1", **given)
    assert said in str(raised.value)


@pytest.mark.parametrize("of", [Admin, Producer, SimpleConsumer])
def test_an_unknown_setting_gets_a_suggestion(of: type) -> None:
    with pytest.raises(TypeError, match=r"'sasl_pasword'; did you mean sasl_password\?"):
        of(bootstrap_servers="h:1", sasl_pasword="x")
    with pytest.raises(TypeError, match=rf"{of.__name__}\(\) .*did you mean request_timeout_ms"):
        of(bootstrap_servers="h:1", request_timeout=1)
