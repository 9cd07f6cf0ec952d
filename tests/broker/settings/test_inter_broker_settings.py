"""The settings of connections between brokers: which listener, which user, and what is refused."""

from __future__ import annotations

import logging

import pytest

from tallymark.broker.connections.outgoing import outgoing
from tallymark.broker.settings.text import log_effective, parse
from tallymark.errors import UserError

SECRET = "hunter2-ä"
INSIDE = {
    "listeners": "OUTSIDE://127.0.0.1:9092,INSIDE://127.0.0.1:9093",
    "listener.security.protocol.map": "OUTSIDE:PLAINTEXT,INSIDE:SASL_PLAINTEXT",
}
LOG_IN = {"inter.broker.user": "broker", "inter.broker.password": SECRET}
NAMED = INSIDE | {"inter.broker.listener.name": "INSIDE"}


@pytest.mark.parametrize(
    ("values", "name", "protocol"),
    [
        ({}, "PLAINTEXT", "PLAINTEXT"),
        (INSIDE, "OUTSIDE", "PLAINTEXT"),
        ({"listeners": "SASL_PLAINTEXT://127.0.0.1:1"}, "SASL_PLAINTEXT", "SASL_PLAINTEXT"),
        (
            {"listeners": "SASL_PLAINTEXT://127.0.0.1:1,PLAINTEXT://127.0.0.1:2"},
            "PLAINTEXT",
            "PLAINTEXT",
        ),
        (NAMED | LOG_IN, "INSIDE", "SASL_PLAINTEXT"),
        (INSIDE | LOG_IN | {"inter.broker.listener.name": " inside "}, "INSIDE", "SASL_PLAINTEXT"),
        (
            {
                "listeners": "PLAINTEXT://127.0.0.1:1,SASL_PLAINTEXT://127.0.0.1:2",
                "security.inter.broker.protocol": "sasl_plaintext",
            }
            | LOG_IN,
            "SASL_PLAINTEXT",
            "SASL_PLAINTEXT",
        ),
    ],
)
def test_the_listener_between_brokers(values: dict[str, str], name: str, protocol: str) -> None:
    found = outgoing(parse(values))
    assert (found.listener.name, found.listener.protocol) == (name, protocol)
    assert (found.sasl is not None) == ("inter.broker.user" in values)
    assert found.tls is None


@pytest.mark.parametrize(
    ("values", "text"),
    [
        (
            NAMED | {"security.inter.broker.protocol": "SASL_PLAINTEXT"},
            "both name the listener between brokers; set one of them",
        ),
        (
            INSIDE | {"inter.broker.listener.name": "MIDDLE"},
            r"name=MIDDLE: there is no listener of that name \(there are OUTSIDE, INSIDE\)",
        ),
        (
            {"security.inter.broker.protocol": "SSL"},
            r"security\.inter\.broker\.protocol=SSL: there is no listener of that name",
        ),
        ({"security.inter.broker.protocol": "TLS"}, r"security\.inter\.broker\.protocol='TLS'"),
        (NAMED, "set inter.broker.user and inter.broker.password"),
        (NAMED | {"inter.broker.user": "broker"}, "inter.broker.password is missing"),
        (NAMED | {"inter.broker.password": SECRET}, "inter.broker.user is missing"),
        (LOG_IN, r"PLAINTEXT://127\.0\.0\.1:9092, asks for no log-in"),
        (
            NAMED | LOG_IN | {"sasl.mechanism.inter.broker.protocol": "PLAIN"},
            r"sasl\.mechanism\.inter\.broker\.protocol=PLAIN is not enabled",
        ),
        (
            NAMED | LOG_IN | {"sasl.mechanism.inter.broker.protocol": "OAUTHBEARER"},
            r"sasl\.mechanism\.inter\.broker\.protocol='OAUTHBEARER'",
        ),
        (
            NAMED | {"listener.name.inside.scram-sha-512.sasl.jaas.config": f"x {SECRET}"},
            "write inter.broker.user and inter.broker.password",
        ),
    ],
)
def test_what_cannot_be_is_refused_with_the_way_out(values: dict[str, str], text: str) -> None:
    with pytest.raises(UserError, match=text) as caught:
        parse(values)
    assert SECRET not in str(caught.value)


def test_the_listener_without_a_list_is_secured_by_the_map() -> None:
    """With ``listener.security.protocol.map=PLAINTEXT:SASL_PLAINTEXT`` and no ``listeners`` every
    client got in without a log-in: the map was ignored. Kafka secures its one listener so."""
    settings = parse(
        {
            "listener.security.protocol.map": "PLAINTEXT:SASL_PLAINTEXT",
            "advertised.host.name": "broker.example",
            **LOG_IN,
        }
    )
    (listener,) = settings.listening()
    (advertised,) = settings.advertised()
    assert listener.protocol == advertised.protocol == "SASL_PLAINTEXT"
    assert settings.inter_broker_listener() == listener
    open_to_others = {"listener.security.protocol.map": "PLAINTEXT:SSL", "host.name": "10.0.0.7"}
    with pytest.raises(UserError, match=r"needs ssl[.]keystore[.]location"):
        parse(open_to_others)


def test_the_password_is_nowhere_to_be_read(caplog: pytest.LogCaptureFixture) -> None:
    settings = parse(NAMED | LOG_IN)
    with caplog.at_level(logging.INFO):
        log_effective(settings, logging.getLogger("test"))
    found = outgoing(settings)
    for text in (caplog.text, repr(settings), repr(found), str(found)):
        assert SECRET not in text
    assert "inter.broker.password=(hidden)" in caplog.text


def test_the_password_may_be_in_a_file(tmp_path: object) -> None:
    path = f"{tmp_path}/secret"
    with open(path, "w", encoding="utf-8") as file:
        file.write(f"{SECRET}\n")
    found = outgoing(parse(NAMED | LOG_IN | {"inter.broker.password": f"${{file:{path}}}"}))
    assert found.sasl is not None
    assert found.sasl.password == SECRET
