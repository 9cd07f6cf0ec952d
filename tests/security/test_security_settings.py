"""Where clients' security is written down: the settings file, and Kafka's client.properties."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from commands import run_command
from security_world import PASSWORD, Certificates, add_users

from tallymark.cli.admin import topics
from tallymark.client import Admin
from tallymark.client.core.security.deployment import connection_settings
from tallymark.deployment import load
from tallymark.errors import AuthenticationError, UserError
from tallymark.shell.command_config import read_command_config
from tallymark.testing.broker_thread import BrokerThread

SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule"


@pytest.fixture
def address(tmp_path: Path, certificates: Certificates) -> Iterator[str]:
    """Of a broker that only lets alice in, by TLS."""
    add_users(tmp_path / "broker", "alice")
    with BrokerThread(
        tmp_path,
        listeners="SASL_SSL://127.0.0.1:0",
        ssl_keystore_location=str(certificates.broker),
        sasl_enabled_mechanisms="SCRAM-SHA-512",
        connection_failed_authentication_delay_ms=10,
    ) as running:
        assert running.broker is not None
        yield str(running.broker.listeners.servers["SASL_SSL"].address)


def properties(folder: Path, certificates: Certificates, jaas: str) -> Path:
    path = folder / "client.properties"
    path.write_text(
        f"""# as Kafka's own tools take it
security.protocol=SASL_SSL
ssl.truststore.type=PEM
ssl.truststore.location={certificates.authority}
sasl.mechanism=SCRAM-SHA-512
sasl.jaas.config={jaas}
request.timeout.ms=1000
""",
        encoding="utf-8",
    )
    return path


def test_a_command_gets_in_by_kafkas_client_properties(
    tmp_path: Path, certificates: Certificates, address: str
) -> None:
    jaas = f'{SCRAM} required \\\n  username="alice" password="{PASSWORD}";'
    path = properties(tmp_path, certificates, jaas)
    words = ("--bootstrap-server", address, "--command-config", str(path))
    assert run_command(topics.command, "create", "t", *words).output == "t: created\n"

    wrong = properties(tmp_path, certificates, f'{SCRAM} required username="alice" password="no";')
    with pytest.raises(AuthenticationError, match=r"sasl failed.*are name and password right"):
        run_command(
            topics.command, "list", "--bootstrap-server", address, "--command-config", str(wrong)
        )


@pytest.mark.parametrize(
    ("jaas", "user", "password"),
    [
        ('X required username="a" password="b c;=";', "a", "b c;="),
        ("X required username='a' password='b\"c';", "a", 'b"c'),
        (r'X required username="a" password="b\"c\\d";', "a", 'b"c\\d'),
        ("X required serviceName=k username=a password=b;", "a", "b"),
    ],
)
def test_the_log_in_within_a_jaas_line(
    tmp_path: Path, certificates: Certificates, jaas: str, user: str, password: str
) -> None:
    # A backslash at the end of a line continues it; within one it is the JAAS text's own.
    found = read_command_config(str(properties(tmp_path, certificates, jaas)))
    assert (found["sasl_username"], found["sasl_password"]) == (user, password)
    assert found["ssl_truststore_location"] == str(certificates.authority)
    assert "request_timeout_ms" not in found


def test_librdkafkas_names_do_as_well(tmp_path: Path) -> None:
    path = tmp_path / "kcat.conf"
    path.write_text("sasl.mechanisms=PLAIN\nsasl.username=a\nssl.ca.location=/ca.pem\n")
    assert read_command_config(str(path)) == {
        "sasl_mechanism": "PLAIN",
        "sasl_username": "a",
        "ssl_truststore_location": "/ca.pem",
    }


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("ssl.truststore.type=JKS", "give a PEM file"),
        ("sasl.jaas.config=X required;", "has no username and password"),
        ("nonsense", "is not name=value"),
        ("a=1\na=2", "is set twice"),
    ],
)
def test_a_file_that_cannot_be_read_says_why(tmp_path: Path, text: str, said: str) -> None:
    path = tmp_path / "client.properties"
    path.write_text(text)
    with pytest.raises(UserError, match=said):
        read_command_config(str(path))
    with pytest.raises(UserError, match="cannot read"):
        read_command_config(str(tmp_path / "none"))


def settings(folder: Path, certificates: Certificates, address: str, password: str) -> Path:
    host, _, port = address.rpartition(":")
    path = folder / "tallymark.toml"
    path.write_text(
        f"""
mirrors = []
[[clusters]]
name = "dc1"
brokers = [{{ host = "{host}", port = {port} }}]
[clusters.security]
security_protocol = "SASL_SSL"
ssl_truststore_location = "{certificates.authority}"
sasl_mechanism = "SCRAM-SHA-512"
sasl_username = "alice"
{password}
""",
        encoding="utf-8",
    )
    return path


def test_a_cluster_of_the_settings_with_its_password_elsewhere(
    tmp_path: Path, certificates: Certificates, address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    secret = tmp_path / "secret"
    secret.write_text(f"{PASSWORD}\n", encoding="utf-8")
    by_file = settings(tmp_path, certificates, address, f'sasl_password_file = "{secret}"')
    words = ("--cluster", "dc1", "--settings", str(by_file))
    assert run_command(topics.command, "create", "t", *words).output == "t: created\n"
    cluster = load(by_file).cluster("dc1")
    assert PASSWORD not in repr(cluster)
    with Admin(**connection_settings(cluster)) as admin:
        assert "t" in admin.topics()

    monkeypatch.setenv("DC1_PASSWORD", PASSWORD)
    by_name = settings(tmp_path, certificates, address, 'sasl_password_env = "DC1_PASSWORD"')
    assert "t\t1" in run_command(topics.command, "list", *words[:3], str(by_name)).output


@pytest.mark.parametrize(
    ("password", "said"),
    [
        ("", "do not say where the password of 'alice' is"),
        ('sasl_password_env = "NOT_THERE"', "NOT_THERE is not set"),
        ('sasl_password_file = "/no/such"', "cannot read the password in /no/such"),
        ('sasl_password_file = "/dev/null"', "first line of /dev/null is empty"),
    ],
)
def test_a_password_that_is_not_there(
    tmp_path: Path, certificates: Certificates, password: str, said: str
) -> None:
    path = settings(tmp_path, certificates, "127.0.0.1:1", password)
    with pytest.raises(UserError, match=said):
        connection_settings(load(path).cluster("dc1"))


def test_a_password_does_not_belong_into_the_settings(
    tmp_path: Path, certificates: Certificates
) -> None:
    path = settings(tmp_path, certificates, "127.0.0.1:1", 'sasl_password = "secret"')
    with pytest.raises(UserError, match="sasl_password") as raised:
        load(path)
    assert "secret" not in str(raised.value)
