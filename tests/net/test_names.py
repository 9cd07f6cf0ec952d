"""Listeners and distinguished names: what is written is what is meant, and nothing else passes."""

from __future__ import annotations

import logging
import ssl
from pathlib import Path

import pytest
import trustme
from hypothesis import given
from hypothesis import strategies as st

from tallymark.broker.settings.broker import BrokerSettings
from tallymark.broker.settings.listeners import (
    PROTOCOLS,
    Endpoint,
    Listener,
    endpoints,
    off_loopback,
    parse_listeners,
    parse_protocol_map,
)
from tallymark.broker.settings.text import log_effective, parse
from tallymark.errors import UserError
from tallymark.net.tls.contexts import client_context, distinguished_name, server_context
from tallymark.net.tls.principals import PrincipalRules

HOSTS = st.sampled_from(["127.0.0.1", "broker.example", "::1", "", "10.0.0.7"])
STANDARD = parse_protocol_map("")


@given(st.dictionaries(st.sampled_from(PROTOCOLS), st.tuples(HOSTS, st.integers(0, 65535))))
def test_listeners_are_read_as_they_are_written(places: dict[str, tuple[str, int]]) -> None:
    listeners = [Listener(name, name, host, port) for name, (host, port) in places.items()]
    taken = [(one.host, one.port) for one in listeners if one.port]
    text = ", ".join(map(str, listeners))
    if len(set(taken)) < len(taken):
        with pytest.raises(ValueError, match="same address"):
            parse_listeners(text, STANDARD)
    elif listeners:
        assert list(parse_listeners(text, STANDARD)) == listeners


@given(st.text(st.sampled_from("PLAINTEXSW:/,0129.[]- "), max_size=40))
def test_other_text_is_a_value_error_or_listeners(text: str) -> None:
    try:
        found = parse_listeners(text, STANDARD)
    except ValueError:
        return
    assert parse_listeners(",".join(map(str, found)), STANDARD) == found


@pytest.mark.parametrize(
    "text",
    [
        "",
        "PLAINTEXT://",
        "PLAINTEXT://h",
        "PLAINTEXT://h:70000",
        "INSIDE://h:1",
        "h:9092",
        "PLAINTEXT://a:1,PLAINTEXT://b:2",
        "PLAINTEXT://::1:9092",
    ],
)
def test_listeners_that_are_none(text: str) -> None:
    with pytest.raises(ValueError, match=r"listener|NAME"):
        parse_listeners(text, STANDARD)


def test_names_of_ones_own() -> None:
    protocols = parse_protocol_map("INSIDE:SASL_PLAINTEXT, outside:ssl")
    inside, outside = parse_listeners("inside://127.0.0.1:1,OUTSIDE://h:2", protocols)
    assert (inside.name, inside.sasl, inside.tls) == ("INSIDE", True, False)
    assert (outside.name, outside.sasl, outside.tls) == ("OUTSIDE", False, True)
    with pytest.raises(ValueError, match="NAME:PROTOCOL"):
        parse_protocol_map("INSIDE=SSL")


def test_what_clients_are_told() -> None:
    listening = parse_listeners("SSL://0.0.0.0:9094,PLAINTEXT://127.0.0.1:9092", STANDARD)
    told = endpoints(listening, parse_listeners("SSL://broker.example:0", STANDARD))
    assert told == {
        "SSL": Endpoint("broker.example", 9094, "SSL"),
        "PLAINTEXT": Endpoint("127.0.0.1", 9092, "PLAINTEXT"),
    }
    with pytest.raises(ValueError, match=r"advertised\.listeners to connect to"):
        endpoints(listening, [])
    with pytest.raises(ValueError, match="listeners does not"):
        endpoints(listening[1:], parse_listeners("SSL://h:1", STANDARD))


def test_loopback() -> None:
    hosts = {"127.0.0.1": False, "127.9.9.9": False, "::1": False, "localhost": False}
    hosts |= {"0.0.0.0": True, "": True, "10.0.0.1": True, "broker": True}
    for host, expected in hosts.items():
        assert off_loopback(Listener("PLAINTEXT", "PLAINTEXT", host, 1)) is expected, host


def test_plaintext_off_loopback_has_to_be_asked_for() -> None:
    for values in ({"host.name": "10.0.0.7"}, {"listeners": "SASL_PLAINTEXT://10.0.0.7:9092"}):
        with pytest.raises(UserError, match=r"listeners\.allow\.plaintext=true"):
            parse(values)
        parse({**values, "listeners.allow.plaintext": "true"})


def test_settings_of_listeners_that_do_not_go_together() -> None:
    with pytest.raises(UserError, match=r"needs ssl\.keystore\.location"):
        parse({"listeners": "SSL://127.0.0.1:9094"})
    with pytest.raises(UserError, match="same name"):
        parse({"listeners": "PLAINTEXT://127.0.0.1:1,PLAINTEXT://127.0.0.1:2"})
    with pytest.raises(UserError, match="must be one or more of PLAIN, SCRAM-SHA-256"):
        parse({"sasl.enabled.mechanisms": "GSSAPI"})
    assert str(BrokerSettings().listening()[0]) == "PLAINTEXT://127.0.0.1:9092"


def test_the_key_password_is_not_told(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level("INFO"):
        log_effective(parse({"ssl.key.password": "hunter2"}), logging.getLogger("test"))
    assert "ssl.key.password" in caplog.text
    assert "hunter2" not in caplog.text


def test_a_distinguished_name_is_rfc_2253() -> None:
    subject = (
        (("countryName", "DE"),),
        (("organizationName", 'Example, "Inc"'),),
        (("organizationalUnitName", "a+b"), ("commonName", "#alice ")),
    )
    assert distinguished_name(subject) == 'OU=a\\+b+CN=\\#alice\\ ,O=Example\\, \\"Inc\\",C=DE'


@given(st.text(st.characters(codec="utf-8", exclude_categories=["Cc", "Cs"]), min_size=1))
def test_a_name_cannot_pretend_to_be_several(value: str) -> None:
    text = distinguished_name(((("commonName", value),),))
    assert text.startswith("CN=")
    unescaped, i = "", 3
    while i < len(text):
        if text[i] == "\\":
            i += 1
        else:
            assert text[i] not in ',+"<>;'
        unescaped += text[i]
        i += 1
    assert unescaped == value


def test_keystores_that_are_none(tmp_path: Path) -> None:
    folder = tmp_path
    ca = trustme.CA()
    ca.cert_pem.write_to_path(str(folder / "ca.pem"))
    (folder / "junk.pem").write_text("junk")
    issued = ca.issue_cert("127.0.0.1").private_key_and_cert_chain_pem
    issued.write_to_path(str(folder / "good.pem"))
    with pytest.raises(UserError, match=r"cannot read .*none\.pem"):
        server_context(folder / "none.pem")
    for wrong in ("junk.pem", "ca.pem"):
        with pytest.raises(UserError, match="needs the private key"):
            server_context(folder / wrong)
    with pytest.raises(UserError, match=r"needs ssl\.truststore\.location"):
        server_context(folder / "good.pem", client_auth="required")
    with pytest.raises(UserError, match="needs certificates"):
        client_context(folder / "junk.pem")
    context = server_context(folder / "good.pem", truststore=folder / "ca.pem")
    assert context.minimum_version is ssl.TLSVersion.TLSv1_2


@pytest.mark.parametrize(
    ("rules", "name", "user"),
    [
        ("DEFAULT", "CN=Ann,O=X", "CN=Ann,O=X"),
        ("", "CN=Ann,O=X", "CN=Ann,O=X"),
        ("RULE:^CN=([^,]+),.*$/$1/", "CN=Ann,O=X", "Ann"),
        ("RULE:^CN=([^,]+),.*$/$1/L", "CN=Ann,O=X", "ann"),
        ("RULE:CN=(.*),O=(.*)/$2-$1/U, DEFAULT", "CN=Ann,O=X", "X-ANN"),
        ("RULE:^CN=(.*),OU=y$/$1/,RULE:^CN=(.*),O=X$/$1@x/,DEFAULT", "CN=Ann,O=X", "Ann@x"),
        ("RULE:^CN=never$/x/", "CN=Ann,O=X", "CN=Ann,O=X"),
        ("RULE:^(.*)a\\/b$/$1\\/c/", "CN=a/b", "CN=/c"),
        ("RULE:^.*$/root/,DEFAULT", "CN=Ann", "root"),
    ],
)
def test_names_in_certificates_become_users(rules: str, name: str, user: str) -> None:
    assert PrincipalRules(rules).user(name) == user


def test_a_rule_fits_the_whole_name_or_not() -> None:
    """Otherwise CN=root,O=elsewhere would be root by a rule that means CN=root."""
    assert PrincipalRules("RULE:CN=(root)/$1/").user("CN=root,O=X") == "CN=root,O=X"


@pytest.mark.parametrize("rules", ["RULE:a", "RULE:(/x/", "RULE:a/$1/", "x", "DEFAULT;DEFAULT"])
def test_rules_that_are_none(rules: str) -> None:
    with pytest.raises(UserError, match=r"ssl\.principal\.mapping\.rules"):
        parse({"ssl.principal.mapping.rules": rules})
