"""``tallymark users`` and ``tallymark acls`` on the data folder of a broker without ZooKeeper."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from tallymark.broker.security.acl_rules import AclRules
from tallymark.broker.security.file_store import FileSecurityStore
from tallymark.broker.security.users import Users
from tallymark.cli.main import command
from tallymark.protocol.acls.words import Operation, ResourceType

Run = Callable[..., Result]


@pytest.fixture
def run(tmp_path: Path) -> Run:
    def invoke(*arguments: str, input: str | None = None) -> Result:
        return CliRunner().invoke(command, [*arguments, "--data", str(tmp_path)], input=input)

    return invoke


def users(folder: Path) -> Users:
    records = FileSecurityStore(folder).read()
    return Users(records.users, records.salt_key)


def test_a_user_comes_and_goes(tmp_path: Path, run: Run) -> None:
    (tmp_path / "password").write_text("secret\nthe rest is not read\n")
    file = str(tmp_path / "password")
    assert run("users", "add", "alice", "--password-file", file).output == "alice: added\n"
    assert users(tmp_path).fits("alice", "secret")
    assert run("users", "list").output == (
        "alice\tSCRAM-SHA-256 4096 iterations, SCRAM-SHA-512 4096 iterations\n"
    )
    assert json.loads(run("users", "list", "--json").stdout) == [
        {"user": "alice", "iterations": {"SCRAM-SHA-256": 4096, "SCRAM-SHA-512": 4096}}
    ]
    assert run("users", "remove", "alice").exit_code == 0
    assert "there is no user alice" in str(run("users", "remove", "alice").exception)
    assert run("users", "list").output == ""


def test_an_old_password_does_not_go_on_by_another_mechanism(tmp_path: Path, run: Run) -> None:
    run("users", "add", "alice", "--password-file", "-", input="old")
    changed = run("users", "add", "alice", "--password-file", "-", input="new")
    assert changed.output == "alice: has a new password\n"
    for credential in users(tmp_path).credentials["alice"].values():
        assert credential.fits("new")
        assert not credential.fits("old")


def test_a_mechanism_that_is_named_leaves_the_other_one_as_it_is(tmp_path: Path, run: Run) -> None:
    """An application logged in by SCRAM-SHA-512. Its user got a SCRAM-SHA-256 credential for an
    older client: the application was locked out, since that had removed the other one."""
    sha256, sha512 = "SCRAM-SHA-256", "SCRAM-SHA-512"
    add = ("users", "add", "alice", "--password-file", "-", "--mechanism")
    assert run(*add, sha512, input="one").output == "alice: added\n"
    assert run(*add, sha256, input="two").output == (
        "alice: has a new password by SCRAM-SHA-256; by SCRAM-SHA-512 it logs in as before\n"
    )
    held = users(tmp_path).credentials["alice"]
    assert held[sha512].fits("one")
    assert held[sha256].fits("two")
    gone = run("users", "remove", "alice", "--mechanism", sha512)
    assert gone.output == "alice: removed, but for SCRAM-SHA-256\n"
    assert list(users(tmp_path).credentials["alice"]) == [sha256]
    again = run("users", "remove", "alice", "--mechanism", sha512)
    assert "alice has no SCRAM-SHA-512" in str(again.exception)
    run("users", "remove", "alice", "--mechanism", sha256)
    assert "alice" not in users(tmp_path).credentials


@pytest.mark.parametrize(
    ("arguments", "password", "text"),
    [
        (["a\nb"], "x", "cannot be the name of a user"),
        (["alice", "--iterations", "100"], "x", "100 iterations, 4096 to 16384"),
        (["alice"], "", "is empty"),
        (["alice"], "\nsecond line", "is empty"),
    ],
)
def test_users_that_are_refused(run: Run, arguments: list[str], password: str, text: str) -> None:
    result = run("users", "add", *arguments, "--password-file", "-", input=password)
    assert text in str(result.exception)


def test_the_password_is_asked_for_or_read_but_never_an_argument(run: Run) -> None:
    assert "--password-file" in str(run("users", "add", "alice", input="x").exception)
    assert run("users", "add", "alice", "--password", "x").exit_code != 0
    missing = run("users", "add", "alice", "--password-file", "/nowhere")
    assert "cannot read the password from /nowhere" in str(missing.exception)


def test_entries_come_and_go(tmp_path: Path, run: Run) -> None:
    added = run(
        *("acls", "add", "--allow", "User:ann", "--deny", "User:bob", "--operation", "read"),
        *("--operation", "describe-configs", "--topic", "click", "--group", "g", "--prefixed"),
    )
    assert added.output.count("\n") == 8
    assert "Deny\tUser:bob\tfrom *\tDescribeConfigs\tTopic:click*\tPrefixed\n" in added.output
    rules = AclRules(FileSecurityStore(tmp_path).read().acls)
    read = (Operation.READ, ResourceType.TOPIC, "clicks")
    assert rules.may("User:ann", "h", *read)
    assert not rules.may("User:bob", "h", *read)
    assert run("acls", "list", "--principal", "User:ann").output.count("\n") == 4
    assert run("acls", "remove", "--principal", "User:ann").output.count("\n") == 4
    assert run("acls", "remove", "--group", "g", "--prefixed").output.count("\n") == 2
    left = json.loads(run("acls", "list", "--json").stdout)
    assert [(row["principal"], row["permissionType"].lower()) for row in left] == [
        ("User:bob", "deny")
    ] * 2
    assert run("acls", "remove", "--all").exit_code == 0
    assert run("acls", "list").output == ""


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["add", "--allow", "User:a", "--operation", "fly", "--topic", "t"], "no operation 'fly'"),
        (["add", "--allow", "ann", "--operation", "read", "--topic", "t"], "is not User:name"),
        (["add", "--allow", "User:a", "--operation", "read"], "who may do it to what"),
        (["add", "--operation", "read", "--topic", "t"], "who may do it to what"),
        (["remove"], "which entries"),
        (["remove", "--topic", "t"], "there is no such entry"),
        (["list", "--zookeeper", "127.0.0.1:1"], "say different things"),
    ],
)
def test_entries_that_are_refused(run: Run, arguments: list[str], text: str) -> None:
    assert text in str(run("acls", *arguments).exception)
