"""The file of users, tokens and roles: what it may hold, and that it is read again."""

from __future__ import annotations

import json
import logging
import os
from pathlib import Path

import pytest

from tallymark.errors import UserError
from tallymark.reread_file import LOOK_SECONDS
from tallymark_schema_registry.access.access_file import AccessFile
from tallymark_schema_registry.access.document import (
    Document,
    TokenPart,
    UserPart,
    document_text,
    parse_document,
    utc,
    write_document,
)
from tallymark_schema_registry.access.grants import Grant, Right
from tallymark_schema_registry.access.hashes import PasswordHash, new_token, token_digest
from tallymark_schema_registry.catalog.subject import Subject

ORDERS = Subject(".", "orders-value")


def quick_hash(password: str) -> str:
    return str(PasswordHash.of(password, cost=10, passes=1))


def test_a_password_fits_its_hash_and_no_other() -> None:
    found = PasswordHash.parse(quick_hash("grün 🔑"))
    assert found.fits("grün 🔑")
    assert not found.fits("grun 🔑")
    assert not found.fits("")
    assert not found.fits("x" * 2_000)
    assert quick_hash("a") != quick_hash("a")
    assert str(PasswordHash.parse(str(found))) == str(found)
    assert "hashed" not in repr(found)


def test_what_the_command_writes_is_as_costly_as_it_should_be() -> None:
    assert str(PasswordHash.of("a")).startswith("$scrypt$ln=14,r=8,p=5$")


@pytest.mark.parametrize(
    "text",
    [
        "",
        "plain",
        "$scrypt$ln=9,r=8,p=1$" + "A" * 22 + "$" + "A" * 43,  # nothing to a guesser
        "$scrypt$ln=14,r=0,p=1$" + "A" * 22 + "$" + "A" * 43,
        "$scrypt$ln=30,r=8,p=1$" + "A" * 22 + "$" + "A" * 43,  # a terabyte for each log-in
        "$scrypt$ln=14,r=8,p=1$" + "A" * 21 + "$" + "A" * 43,
    ],
)
def test_hashes_that_are_none(text: str) -> None:
    with pytest.raises(ValueError, match=r"\$scrypt\$|cost|base64"):
        PasswordHash.parse(text)


def test_tokens_cannot_be_guessed_and_are_kept_as_hashes() -> None:
    tokens = {new_token() for _ in range(100)}
    assert len(tokens) == 100
    assert all(token.startswith("tmr_") and len(token) == 47 for token in tokens)
    token = tokens.pop()
    assert token_digest(token) == token_digest(token.encode())
    assert token not in token_digest(token)


def document() -> Document:
    values = {
        "format": 1,
        "roles": {"team": {"write": ["orders-*"], "read": ["*"]}},
        "users": {
            "alice": {"password": quick_hash("a"), "roles": ["team"]},
            "ops": {"password": quick_hash("o"), "grants": {"admin": [":*:*"]}},
        },
        "tokens": {
            "ci": {
                "sha256": token_digest("t"),
                "expires": "2027-02-01T00:00:00Z",
                "roles": ["team"],
                "grants": {"delete": [":.ci:*"]},
            }
        },
    }
    return parse_document(json.dumps(values), "the file")


def test_what_is_written_is_what_was_read() -> None:
    text = document_text(document())
    assert parse_document(text, "x") == document().model_copy(
        update={"users": parse_document(text, "x").users}
    )
    assert "made" not in text
    assert json.loads(document_text(Document())) == {"format": 1}


def test_grants_are_those_of_the_roles_and_its_own() -> None:
    read = document()
    own = Grant(Right.DELETE, ":.ci:*")
    team = {Grant(Right.WRITE, "orders-*"), Grant(Right.READ, "*")}
    assert set(read.grants_of(read.tokens["ci"])) == {own, *team}
    assert set(read.grants_of(read.users["alice"])) == team


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("{", "wrong at the file"),
        ("[]", "wrong at the file"),
        ('{"format": 2}', "wrong at format"),
        ('{"user": {}}', "wrong at user: Extra inputs"),
        ('{"users": {"a": {}}}', "wrong at users.a.password: Field required"),
        ('{"users": {"a": {"password": "secret"}}}', "wrong at users.a.password: Value error"),
        ('{"users": {"a:b": {"password": "secret"}}}', "wrong at users.a:b"),
        ('{"tokens": {"t": {"sha256": "secret"}}}', "wrong at tokens.t.sha256"),
        ('{"roles": {"r": {"read": [":x"]}}}', "wrong at roles.r.read.0"),
        ('{"roles": {"r": {"own": ["x"]}}}', "wrong at roles.r.own"),
        ('{"tokens": {"t": {"sha256": "%s", "roles": ["r"]}}}' % ("0" * 64), "the role r"),
        (
            '{"tokens": {"t": {"sha256": "%s", "expires": "2027-01-01T00:00"}}}' % ("0" * 64),
            "wrong at tokens.t.expires",
        ),
    ],
)
def test_what_is_wrong_is_named_by_its_place_and_secrets_are_not_shown(
    text: str, place: str
) -> None:
    with pytest.raises(UserError) as refused:
        parse_document(text, "f.json")
    assert place in str(refused.value)
    assert "secret" not in str(refused.value)


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def test_a_changed_file_counts_within_a_second(tmp_path: Path) -> None:
    path, clock = tmp_path / "access.json", Clock()
    with pytest.raises(UserError, match="registry-access add-user"):
        AccessFile(path)
    write_document(path, document())
    assert path.stat().st_mode & 0o777 == 0o600
    accounts = AccessFile(path, clock)
    assert accounts.fits("alice", "a")
    assert not accounts.fits("alice", "b")
    assert not accounts.fits("bob", "a")
    alice = accounts.user("alice")
    assert alice is not None
    assert alice.may(Right.WRITE, ORDERS)
    before = accounts.version
    changed = document()
    changed.users["alice"] = UserPart(password=quick_hash("b"))
    changed.tokens["ci"] = TokenPart(sha256=token_digest("u"), expires=utc(1_000))
    write_document(path, changed)
    assert accounts.version == before
    clock.now += LOOK_SECONDS
    assert accounts.version != before
    assert accounts.fits("alice", "b")
    alice = accounts.user("alice")
    assert alice is not None
    assert not alice.may(Right.READ, ORDERS)
    assert accounts.token(b"t") is None
    token = accounts.token(b"u")
    assert token is not None
    assert (token.principal.name, token.expires) == ("token:ci", 1_000)


def test_a_wrong_file_changes_nothing_and_says_so_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path, clock = tmp_path / "access.json", Clock()
    write_document(path, document())
    accounts = AccessFile(path, clock)
    version = accounts.version
    with caplog.at_level(logging.ERROR):
        path.write_text('{"users": {"alice": {"password": "secret"}}}')
        for _ in range(3):
            clock.now += LOOK_SECONDS
            assert accounts.knows("alice")
        path.unlink()
        clock.now += LOOK_SECONDS
        assert accounts.fits("alice", "a")
    assert accounts.version == version
    wrong, gone = caplog.messages
    assert "users.alice.password" in wrong
    assert "secret" not in wrong
    assert "No such file" in gone
    # It is read as soon as it is there and right, even with the old time of change.
    write_document(path, Document())
    os.utime(path, (1, 1))
    clock.now += LOOK_SECONDS
    assert not accounts.knows("alice")


def test_the_same_grants_are_shared() -> None:
    """Answers are remembered for a set of grants: a thousand consumers with one role share them."""
    read = document()
    read.users["bob"] = read.users["alice"]
    from tallymark_schema_registry.access.access_file import Accounts

    users = Accounts.of(read).users
    assert users["alice"].principal.grants is users["bob"].principal.grants
    assert users["alice"].principal.grants is not users["ops"].principal.grants
