"""``tallymark registry-access``: users, tokens, roles and what they may do."""

from __future__ import annotations

import json
import threading
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from tallymark.errors import UserError
from tallymark_schema_registry.access.access_file import AccessFile
from tallymark_schema_registry.access.document import (
    GrantsPart,
    changed_document,
    read_document,
)
from tallymark_schema_registry.access.grants import Right
from tallymark_schema_registry.catalog.subject import Subject
from tallymark_schema_registry.cli.registry_access import command


class Command:
    """The command, with one file."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __call__(self, *arguments: str, input: str | None = None) -> Result:
        done = CliRunner().invoke(command, [*arguments, "--file", str(self.path)], input=input)
        if done.exception and not isinstance(done.exception, SystemExit):
            raise done.exception
        return done


@pytest.fixture
def access(tmp_path: Path) -> Command:
    return Command(tmp_path / "deep" / "access.json")


@pytest.mark.slow
def test_a_user_is_added_and_gets_another_password(access: Command) -> None:
    done = access(
        *("add-user", "alice", "--password-file", "-", "--write", "orders-*"), input="one\n"
    )
    assert done.output == "user:alice: added\n"
    assert access.path.stat().st_mode & 0o777 == 0o600
    done = access("add-user", "alice", "--password-file", "-", input="two\n")
    assert done.output == "user:alice: has a new password\n"
    accounts = AccessFile(access.path)
    assert accounts.fits("alice", "two")
    assert not accounts.fits("alice", "one")
    alice = accounts.user("alice")
    assert alice is not None
    assert alice.may(Right.WRITE, Subject(".", "orders-value"))
    assert "two" not in access.path.read_text()


def test_a_token_is_printed_once_and_kept_as_a_hash(access: Command) -> None:
    first = access("add-token", "ci", "--days", "30", "--write", "*").output.strip()
    assert first not in access.path.read_text()
    held = AccessFile(access.path).token(first.encode())
    assert held is not None
    assert held.principal.name == "token:ci"
    ends = datetime.fromtimestamp(held.expires, UTC) - datetime.now(UTC)
    assert timedelta(days=29) < ends < timedelta(days=31)
    second = access("add-token", "ci", "--never-expires").output.strip()
    accounts = AccessFile(access.path)
    assert accounts.token(first.encode()) is None
    held = accounts.token(second.encode())
    assert held is not None
    assert held.expires == float("inf")
    assert held.principal.may(Right.WRITE, Subject(".", "a"))


def test_rights_are_given_and_taken(access: Command) -> None:
    access("add-token", "ci")
    access("grant", "role:team", "--read", "*", "--write", "a", "--write", "a")
    access("grant", "token:ci", "--role", "team", "--delete", ":.x:*")
    assert access("check", "token:ci", "write", "a").output == "yes\n"
    assert access("check", "token:ci", "delete", ":.x:b").output == "yes\n"
    assert access("check", "role:team", "read", "b").output == "yes\n"
    denied = access("check", "token:ci", "admin", "a")
    assert (denied.output, denied.exit_code) == ("no\n", 1)
    listed = json.loads(access("list", "--json").output)
    assert [row["holder"] for row in listed] == ["token:ci", "role:team"]
    assert listed[0]["roles"] == "team"
    assert listed[1]["write"] == "a"
    access("revoke", "role:team", "--write", "a")
    assert access("check", "token:ci", "write", "a").exit_code == 1
    access("revoke", "token:ci", "--role", "team", "--delete", ":.x:*")
    assert access("check", "token:ci", "read", "a").exit_code == 1
    access("grant", "token:ci", "--role", "team")
    access("remove", "role:team")
    assert read_document(access.path).tokens["ci"].roles == []
    access("remove", "token:ci")
    assert "ci" not in access.path.read_text()


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (["grant", "alice"], "write user:, token: or role:NAME"),
        (["grant", "user:alice", "--read", "a"], "there is no user alice"),
        (["grant", "token:ci", "--read", ":a"], "no pattern"),
        (["grant", "token:ci", "--role", "team"], "there is no role team"),
        (["grant", "role:other", "--role", "other"], "a role has no roles"),
        (["revoke", "token:ci", "--read", "a"], "token:ci has no read on a"),
        (["remove", "role:team"], "there is no role team"),
        (["check", "token:ci", "read", ":a"], "not a valid"),
        (["add-token", "a:b"], "no colon"),
    ],
)
def test_what_cannot_be_done_changes_nothing(
    access: Command, arguments: list[str], problem: str
) -> None:
    access("add-token", "ci")
    before = access.path.read_text()
    with pytest.raises(UserError) as refused:
        access(*arguments)
    assert problem in str(refused.value)
    assert access.path.read_text() == before


def test_a_wrong_file_is_not_overwritten(access: Command) -> None:
    access.path.parent.mkdir()
    access.path.write_text("{")
    with pytest.raises(UserError, match="wrong at the file"):
        access("add-token", "ci")
    assert access.path.read_text() == "{"


def test_changes_at_the_same_time_are_all_kept(tmp_path: Path) -> None:
    """Two commands read the same file, and the second to write took away what the first added."""

    def add(number: int) -> None:
        with changed_document(tmp_path / "f.json") as document:
            document.roles[f"role-{number}"] = GrantsPart(read=["*"])

    threads = [threading.Thread(target=add, args=(number,)) for number in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(read_document(tmp_path / "f.json").roles) == 20


def test_the_file_of_the_settings(tmp_path: Path) -> None:
    settings = tmp_path / "tallymark.toml"
    settings.write_text("")
    arguments = ["add-token", "ci", "--settings", str(settings)]
    with pytest.raises(UserError, match=r"set access_file in \[registry\]"):
        CliRunner().invoke(command, arguments, catch_exceptions=False)
    settings.write_text(f'[registry]\naccess_file = "{tmp_path}/access.json"\n')
    assert CliRunner().invoke(command, arguments).exit_code == 0
    assert "ci" in read_document(tmp_path / "access.json").tokens
