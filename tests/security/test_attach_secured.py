"""``tallymark attach`` where brokers want TLS, a log-in, and rights."""

from __future__ import annotations

import os
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from security_world import PASSWORD, Certificates, add_users

from tallymark.client import AclEntry, Admin
from tallymark.client.core.security.deployment import connection_settings
from tallymark.deployment import load
from tallymark.testing.broker_thread import BrokerThread
from tallymark_audit.attach.cli import command
from tallymark_audit.model.edges import AUDIT_TOPIC


@pytest.fixture
def broker(tmp_path: Path, certificates: Certificates) -> Iterator[BrokerThread]:
    add_users(tmp_path / "broker", "admin", "ops")
    with BrokerThread(
        tmp_path,
        listeners="SASL_SSL://127.0.0.1:0",
        ssl_keystore_location=str(certificates.broker),
        sasl_enabled_mechanisms="SCRAM-SHA-512",
        authorizer_enable=True,
        super_users="User:admin",
    ) as running:
        yield running


def address(broker: BrokerThread) -> str:
    assert broker.broker is not None
    return str(broker.broker.listeners.servers["SASL_SSL"].address)


def attach(broker: BrokerThread, folder: Path, config: Path, *more: str) -> Result:
    settings, data = str(folder / "tallymark.toml"), str(folder / "data")
    arguments = [address(broker), "--settings", settings, "--data", data, "--no-start", "--yes"]
    return CliRunner().invoke(command, [*arguments, "--command-config", str(config), *more])


def client_properties(folder: Path, certificates: Certificates, password: str = PASSWORD) -> Path:
    path = folder / "client.properties"
    path.write_text(
        "security.protocol=SASL_SSL\n"
        f"ssl.truststore.location={certificates.authority}\n"
        "sasl.mechanism=SCRAM-SHA-512\n"
        f"sasl.username=ops\nsasl.password={password}\n",
        encoding="utf-8",
    )
    return path


def lines(result: Result) -> str:
    """What was said, or refused."""
    return f"{result.output}{result.exception}"


def test_rights_by_and_by(broker: BrokerThread, certificates: Certificates, tmp_path: Path) -> None:
    """Somebody's cluster wants TLS, a log-in and rights: each refusal says what to give, and
    nothing is written before all is well; then no password is in the settings."""
    config = client_properties(tmp_path, certificates)
    assert "kafka cannot be reached" in lines(attach(broker, tmp_path, Path(os.devnull)))
    wrong = client_properties(tmp_path, certificates, "guessed")
    said = lines(attach(broker, tmp_path, wrong))
    assert "kafka does not let us in" in said
    assert "guessed" not in said
    client_properties(tmp_path, certificates)

    root = {
        "bootstrap_servers": address(broker),
        "security_protocol": "SASL_SSL",
        "ssl_truststore_location": certificates.authority,
        "sasl_mechanism": "SCRAM-SHA-512",
        "sasl_username": "admin",
        "sasl_password": PASSWORD,
    }
    with Admin(**root) as admin:  # type: ignore[arg-type]

        def allow(resource: str, name: str, *operations: str) -> None:
            entries = [AclEntry(resource, name, "User:ops", one) for one in operations]
            admin.create_acls(entries).check()

        admin.create_topic("clicks", 1)
        admin.create_topic("secret", 1)
        said = lines(attach(broker, tmp_path, config))
        assert "the audit may not work on kafka: no right to use the group tallymark-audit" in said
        allow("group", "tallymark-audit-kafka", "read", "describe")
        said = lines(attach(broker, tmp_path, config))
        assert f"kafka has no topic {AUDIT_TOPIC}, and it may not be made" in said
        assert "Create on it" in said
        assert not (tmp_path / "tallymark.toml").exists()

        allow("topic", AUDIT_TOPIC, "create", "read", "write", "describe", "describe-configs")
        allow("topic", "clicks", "read", "describe", "describe-configs")
        allow("topic", "secret", "describe", "describe-configs")
        said = lines(attach(broker, tmp_path, config))
    assert "kafka: secret has no right to be read" in said
    assert f"made the topic {AUDIT_TOPIC} on kafka" in said
    assert f"its user needs Write on {AUDIT_TOPIC}" in said
    assert PASSWORD not in said

    path = tmp_path / "tallymark.toml"
    assert PASSWORD not in path.read_text(encoding="utf-8")
    security = tomllib.loads(path.read_text(encoding="utf-8"))["clusters"][0]["security"]
    assert Path(security["sasl_password_file"]).stat().st_mode & 0o077 == 0
    with Admin(**connection_settings(load(path).cluster("kafka"))) as admin:
        assert AUDIT_TOPIC in admin.topics()

    settings = ["--settings", str(path), "--no-start"]
    again = CliRunner().invoke(command, [address(broker), *settings])
    assert again.exit_code == 0, lines(again)
    assert f"going on with {path}" in again.output
    other = client_properties(tmp_path, certificates)
    other.write_text(other.read_text().replace("=ops", "=admin"), encoding="utf-8")
    assert "the security of kafka is another" in lines(attach(broker, tmp_path, other))
