"""The file of users, tokens and roles: what is in it, and how it is changed. JSON::

    {"format": 1,
     "roles":  {"orders-team": {"write": ["orders-*"], "read": ["*"]}},
     "users":  {"alice": {"password": "$scrypt$...", "roles": ["orders-team"],
                          "grants": {"admin": [":.sandbox:*"]}}},
     "tokens": {"ci": {"sha256": "9f86...", "expires": "2027-02-01T00:00:00Z",
                       "grants": {"write": ["*"]}}}}

A role is a named set of grants; a user or token has those of its roles and its own. Patterns are
those of :mod:`.grants`.
"""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any, Final, Literal

from pydantic import AfterValidator, AwareDatetime, BaseModel, ConfigDict, Field, ValidationError

from tallymark.errors import UserError
from tallymark.private_files import open_private, write_private
from tallymark_schema_registry.access.grants import Grant, Right, split_pattern
from tallymark_schema_registry.access.hashes import PasswordHash

LONGEST_NAME: Final = 200


def check_name(name: str) -> str:
    """``name`` itself. ValueError where no user, token or role may have it: Basic credentials end
    a name at the first colon."""
    if not 0 < len(name) <= LONGEST_NAME or not name.isprintable() or ":" in name:
        raise ValueError(f"a name has 1 to {LONGEST_NAME} printable characters and no colon")
    return name


def _check_pattern(pattern: str) -> str:
    split_pattern(pattern)
    return pattern


def _check_password(text: str) -> str:
    PasswordHash.parse(text)
    return text


Pattern = Annotated[str, AfterValidator(_check_pattern)]
Name = Annotated[str, AfterValidator(check_name)]


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", validate_assignment=True)


class GrantsPart(_Part):
    """Right -> patterns of subjects."""

    read: list[Pattern] = []
    write: list[Pattern] = []
    delete: list[Pattern] = []
    admin: list[Pattern] = []

    def listed(self) -> Iterator[Grant]:
        """Every grant."""
        for right in Right:
            for pattern in self.patterns(right):
                yield Grant(right, pattern)

    def patterns(self, right: Right) -> list[str]:
        """The patterns of one right, to be changed in place."""
        found: list[str] = getattr(self, right)
        return found


class HolderPart(_Part):
    """What users and tokens have in common."""

    roles: list[Name] = []
    grants: GrantsPart = Field(default_factory=GrantsPart)


class UserPart(HolderPart):
    """A user, who logs in by HTTP Basic. ``password``: see :mod:`.hashes`."""

    password: Annotated[str, AfterValidator(_check_password)] = Field(repr=False)


class TokenPart(HolderPart):
    """A bearer token. ``sha256``: see :mod:`.hashes`. ``expires`` None: never."""

    sha256: Annotated[str, Field(pattern=r"^[0-9a-f]{64}$", repr=False)]
    made: AwareDatetime | None = None
    expires: AwareDatetime | None = None


class Document(_Part):
    """The whole file."""

    format: Literal[1] = 1
    roles: dict[Name, GrantsPart] = {}
    users: dict[Name, UserPart] = {}
    tokens: dict[Name, TokenPart] = {}

    def grants_of(self, holder: HolderPart) -> tuple[Grant, ...]:
        """All grants of a user or token."""
        found = set(holder.grants.listed())
        for role in holder.roles:
            found.update(self.roles[role].listed())
        return tuple(sorted(found))


def read_document(path: Path) -> Document:
    """The file's content. UserError where it cannot be read or is wrong, with the place in it;
    never with a secret."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        raise UserError(
            f"cannot read who may use the registry in {path}: {why}",
            "make the file: tallymark registry-access add-user NAME",
        ) from error
    return parse_document(text, str(path))


def parse_document(text: str, where: str) -> Document:
    """The inverse of :func:`document_text`; ``where`` names the text in errors."""
    try:
        document = Document.model_validate_json(text)
    except ValidationError as error:
        first = error.errors(include_input=False, include_url=False)[0]
        place = ".".join(str(part) for part in first["loc"]) or "the file"
        raise UserError(f"{where} is wrong at {place}: {first['msg']}", "mend it") from None
    for kind, holders in (("users", document.users), ("tokens", document.tokens)):
        for name, holder in holders.items():
            for role in holder.roles:
                if role not in document.roles:
                    raise UserError(
                        f"{where}: {kind}.{name} has the role {role}, which is not there"
                    )
    return document


def document_text(document: Document) -> str:
    """The file's text. What is empty is left out."""
    values = _without_empty(document.model_dump(mode="json", exclude_none=True))
    return json.dumps(values, indent=2, ensure_ascii=False) + "\n"


def write_document(path: Path, document: Document) -> None:
    """Put the file in the place of the old one, for its owner's eyes alone."""
    write_private(path, document_text(document))


@contextmanager
def changed_document(path: Path) -> Iterator[Document]:
    """The file's content, which is written when the block ends without an error; an empty one where
    there is no file. Another change at the same time waits. UserError where it cannot be read or
    written."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        file = open_private(path.with_name(f".{path.name}.lock"), os.O_RDWR | os.O_CREAT)
    except OSError as error:
        raise _unwritable(path, error) from error
    try:
        fcntl.flock(file, fcntl.LOCK_EX)
        document = read_document(path) if path.exists() else Document()
        yield document
        try:
            write_document(path, parse_document(document_text(document), str(path)))
        except OSError as error:
            raise _unwritable(path, error) from error
    finally:
        os.close(file)


def _unwritable(path: Path, error: OSError) -> UserError:
    return UserError(f"cannot write {path}: {error.strerror}")


def utc(seconds: float) -> datetime:
    """A point in time of the file."""
    return datetime.fromtimestamp(int(seconds), UTC)


def _without_empty(values: dict[str, Any]) -> dict[str, Any]:
    kept = {
        name: _without_empty(value) if isinstance(value, dict) else value
        for name, value in values.items()
    }
    return {name: value for name, value in kept.items() if value not in ({}, [])}
