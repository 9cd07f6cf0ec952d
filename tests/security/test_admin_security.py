"""Access-control entries by Admin, in force at once; and what somebody else is told."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from security_world import PASSWORD, add_users

from tallymark.cli.main import command
from tallymark.client import Admin, Producer
from tallymark.client.admin.acls import AclEntry, AclQuery
from tallymark.client.admin.topic_admin import NewTopic
from tallymark.errors import KafkaError, TallymarkError, UserError
from tallymark.testing.broker_thread import BrokerThread


@pytest.fixture
def address(tmp_path: Path) -> Iterator[str]:
    add_users(tmp_path / "broker", "root", "ann")
    with BrokerThread(
        tmp_path,
        listeners="SASL_PLAINTEXT://127.0.0.1:0",
        sasl_enabled_mechanisms="SCRAM-SHA-256",
        authorizer_enable=True,
        super_users="User:root",
    ) as running:
        assert running.broker is not None
        yield str(running.broker.listeners.servers["SASL_PLAINTEXT"].address)


def known(address: str, user: str) -> dict[str, Any]:
    return {
        "bootstrap_servers": address,
        "request_timeout_ms": 5000,
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": "SCRAM-SHA-256",
        "sasl_username": user,
        "sasl_password": PASSWORD,
    }


def test_entries_are_added_told_in_force_and_removed(address: str) -> None:
    entries = [
        AclEntry("topic", "click", "User:ann", "write", pattern="prefixed"),
        AclEntry("topic", "clicks", "User:ann", "delete", "deny"),
    ]
    with Admin(**known(address, "root")) as admin, Admin(**known(address, "ann")) as other:
        admin.create_topics([NewTopic("clicks", 1)]).check()
        assert set(admin.create_acls(entries).check()) == set(entries)
        assert set(admin.describe_acls()) == set(entries)
        match = AclQuery("topic", "clicks", pattern="match")
        assert len(admin.describe_acls(match)) == 2
        with Producer(**known(address, "ann"), audit=False) as producer:
            assert producer.send("clicks", b"x").result(30).offset == 0

        refused = other.delete_topics(["clicks"])
        assert "TOPIC_AUTHORIZATION_FAILED" in str(refused.errors["clicks"])
        with pytest.raises(KafkaError, match="CLUSTER_AUTHORIZATION_FAILED"):
            other.describe_acls()
        with pytest.raises(KafkaError, match="CLUSTER_AUTHORIZATION_FAILED"):
            other.create_acls(entries).check()

        query = AclQuery(permission="deny")
        assert admin.delete_acls([query])[query] == (entries[1],)
        assert admin.describe_acls() == (entries[0],)


def test_words_that_mean_nothing_are_refused_here(address: str) -> None:
    with Admin(**known(address, "root")) as admin:
        with pytest.raises(UserError, match="there is no operation 'fly'; give one of any, all"):
            admin.describe_acls(AclQuery(operation="fly"))
        with pytest.raises(TallymarkError, match="there is no resource 'door'"):
            admin.create_acls([AclEntry("door", "x", "User:a", "read")])


def test_the_commands_ask_the_brokers_when_told_to(address: str, tmp_path: Path) -> None:
    config = tmp_path / "root.properties"
    config.write_text(
        "security.protocol=SASL_PLAINTEXT\nsasl.mechanism=SCRAM-SHA-256\n"
        f"sasl.username=root\nsasl.password={PASSWORD}\n",
        encoding="utf-8",
    )

    def run(*words: str, input: str | None = None) -> str:
        named = ("--bootstrap-server", address, "--command-config", str(config))
        result = CliRunner().invoke(command, [*words, *named], input=input)
        assert result.exception is None, result.exception
        return result.output

    both = "SCRAM-SHA-256 4096 iterations, SCRAM-SHA-512 4096 iterations"
    assert run("users", "add", "bob", "--password-file", "-", input="one") == "bob: added\n"
    assert f"bob\t{both}" in run("users", "list")
    weak = ("users", "add", "bob", "--mechanism", "SCRAM-SHA-256", "--password-file", "-")
    assert run(*weak, input="two").startswith("bob: has a new password by SCRAM-SHA-256; by SCRAM")
    assert f"bob\t{both}" in run("users", "list")
    with Admin(**known(address, "bob") | {"sasl_password": "two"}) as admin:
        assert admin.topics() == {}
    assert run("users", "remove", "bob") == "bob: removed\n"
    assert "bob" not in run("users", "list")

    read = ("--operation", "read", "--group", "loa", "--group", "loader", "--prefixed")
    added = run("acls", "add", "--allow", "User:ann", *read)
    assert run("acls", "list") == added
    assert run("acls", "remove", "--principal", "User:ann") == added
    assert run("acls", "list") == ""
