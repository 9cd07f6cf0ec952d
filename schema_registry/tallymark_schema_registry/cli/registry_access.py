"""``tallymark registry-access``: who may do what in the schema registry."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, TypeVar

import click

from tallymark.deployment import load
from tallymark.errors import UserError
from tallymark.shell.lazy_group import NamedGroup
from tallymark.shell.output import json_option, print_line, show
from tallymark.shell.passwords import password_option, read_password
from tallymark_schema_registry.access.document import (
    Document,
    GrantsPart,
    HolderPart,
    TokenPart,
    UserPart,
    changed_document,
    check_name,
    read_document,
    utc,
)
from tallymark_schema_registry.access.grants import Grants, Right, split_pattern
from tallymark_schema_registry.access.hashes import PasswordHash, new_token, token_digest
from tallymark_schema_registry.catalog.subject import parse_subject
from tallymark_schema_registry.errors import RegistryError

F = TypeVar("F", bound=Callable[..., Any])

DAYS: Final = 90
_KINDS: Final = ("user", "token", "role")
_DENIED: Final = 1


@click.group("registry-access", cls=NamedGroup)
def command() -> None:
    """Say who may do what in the schema registry: users, tokens and their rights.

    Rights are read, write, delete and admin, each on the subjects that a pattern matches: NAME, or
    :.CONTEXT:NAME; * stands for any characters, ":*:*" for all subjects of all contexts. HOLDER is
    user:NAME, token:NAME or role:NAME. A running registry sees a change within a second.
    """


def _file_options(function: F) -> F:
    for option in (
        click.option("--settings", type=click.Path(dir_okay=False), help="The settings file."),
        click.option(
            "--file",
            "path",
            type=click.Path(dir_okay=False, path_type=Path),
            help="The file of users and tokens [default: access_file of [registry]].",
        ),
    ):
        function = option(function)
    return function


def _grant_options(function: F) -> F:
    for right in reversed(Right):
        function = click.option(
            f"--{right}", multiple=True, metavar="PATTERN", help=f"Subjects to {_MEANING[right]}."
        )(function)
    return click.option(
        "--role", "roles", multiple=True, metavar="NAME", help="With the rights of this role."
    )(function)


_MEANING: Final = {
    Right.READ: "read",
    Right.WRITE: "register in, and read",
    Right.DELETE: "delete from, and read",
    Right.ADMIN: "do everything with, levels and modes included",
}


@command.command("add-user")
@click.argument("name")
@password_option
@_grant_options
@_file_options
def add_user(name: str, password_file: str | None, **options: Any) -> None:
    """Add the user NAME, who logs in by HTTP Basic, or give it another password.

    Rights that the user has stay. The password is never an argument, where other users of the
    machine could see it.
    """
    _check_name(name)
    hashed = str(PasswordHash.of(read_password(password_file)))
    with _changing(options) as document:
        known = document.users.get(name)
        user = known or UserPart(password=hashed)
        user.password = hashed
        document.users[name] = user
        _give(document, user, options)
    print_line(f"user:{name}: {'added' if known is None else 'has a new password'}")


@command.command("add-token")
@click.argument("name")
@click.option(
    "--days",
    type=click.IntRange(min=1, max=36_500),
    default=DAYS,
    show_default=True,
    help="How long it is good for.",
)
@click.option("--never-expires", is_flag=True, help="It is good until it is removed.")
@_grant_options
@_file_options
def add_token(name: str, days: int, never_expires: bool, **options: Any) -> None:
    """Make a bearer token called NAME and print it, this once: only its hash is kept.

    A token of this name that is there is replaced, and is not good any more; its rights stay.
    """
    _check_name(name)
    token, now = new_token(), time.time()
    with _changing(options) as document:
        known = document.tokens.get(name)
        part = known or TokenPart(sha256=token_digest(token))
        part.sha256 = token_digest(token)
        part.made = utc(now)
        part.expires = None if never_expires else utc(now + days * 86_400)
        document.tokens[name] = part
        _give(document, part, options)
    print_line(token)


@command.command("grant")
@click.argument("holder")
@_grant_options
@_file_options
def grant(holder: str, **options: Any) -> None:
    """Give rights to HOLDER; a role that is not there is made."""
    kind, name = _holder(holder)
    with _changing(options) as document:
        if kind == "role" and name not in document.roles:
            _check_name(name)
            document.roles[name] = GrantsPart()
        _give(document, _found(document, kind, name), options)
    print_line(f"{holder}: done")


@command.command("revoke")
@click.argument("holder")
@_grant_options
@_file_options
def revoke(holder: str, **options: Any) -> None:
    """Take rights from HOLDER, by the patterns and roles with which they were given."""
    kind, name = _holder(holder)
    with _changing(options) as document:
        part = _found(document, kind, name)
        grants = part.grants if isinstance(part, HolderPart) else part
        for right in Right:
            for pattern in options[right]:
                _take(grants.patterns(right), pattern, f"{holder} has no {right} on {pattern}")
        for role in options["roles"]:
            held = part.roles if isinstance(part, HolderPart) else []
            _take(held, role, f"{holder} has no role {role}")
    print_line(f"{holder}: done")


@command.command("remove")
@click.argument("holder")
@_file_options
def remove(holder: str, **options: Any) -> None:
    """Remove a user, token or role. A role is taken from all who have it."""
    kind, name = _holder(holder)
    with _changing(options) as document:
        _found(document, kind, name)
        del _all(document, kind)[name]
        if kind == "role":
            for part in (*document.users.values(), *document.tokens.values()):
                part.roles = [role for role in part.roles if role != name]
    print_line(f"{holder}: removed")


@command.command("list")
@json_option
@_file_options
def list_holders(as_json: bool, **options: Any) -> None:
    """Print users, tokens and roles, and what they may do."""
    document = read_document(_path(options))
    rows = [
        _row(f"{kind}:{name}", part)
        for kind in _KINDS
        for name, part in sorted(_all(document, kind).items())
    ]
    show(rows, ("holder", "roles", *Right, "expires"), as_json)


@command.command("check")
@click.argument("holder")
@click.argument("right", type=click.Choice([str(right) for right in Right]))
@click.argument("subject")
@_file_options
def check(holder: str, right: str, subject: str, **options: Any) -> None:
    """Print whether HOLDER has RIGHT on SUBJECT. Exit code 0: yes, 1: no."""
    document = read_document(_path(options))
    part = _found(document, *_holder(holder))
    grants = Grants(
        document.grants_of(part) if isinstance(part, HolderPart) else tuple(part.listed())
    )
    try:
        given = grants.allow(Right(right), parse_subject(subject))
    except RegistryError as error:
        raise UserError(error.message) from None
    print_line("yes" if given else "no")
    if not given:
        raise SystemExit(_DENIED)


def _row(holder: str, part: HolderPart | GrantsPart) -> dict[str, Any]:
    grants = part.grants if isinstance(part, HolderPart) else part
    row: dict[str, Any] = {"holder": holder}
    if isinstance(part, HolderPart):
        row["roles"] = " ".join(part.roles) or None
    row |= {str(right): " ".join(grants.patterns(right)) or None for right in Right}
    if isinstance(part, TokenPart):
        row["expires"] = part.expires.isoformat() if part.expires else "never"
    return row


@contextmanager
def _changing(options: dict[str, Any]) -> Iterator[Document]:
    """The file's content, which is written afterwards; a new one where there is none."""
    with changed_document(_path(options)) as document:
        yield document


def _path(options: dict[str, Any]) -> Path:
    given: Path | None = options["path"]
    if given is not None:
        return given
    setting = load(options["settings"]).registry.access_file
    if not setting:
        raise UserError(
            "the settings name no file of users and tokens",
            "set access_file in [registry], or give --file",
        )
    return Path(setting)


def _give(document: Document, part: HolderPart | GrantsPart, options: dict[str, Any]) -> None:
    grants = part.grants if isinstance(part, HolderPart) else part
    for right in Right:
        for pattern in options[right]:
            try:
                split_pattern(pattern)
            except ValueError as error:
                raise UserError(str(error)) from None
            if pattern not in grants.patterns(right):
                grants.patterns(right).append(pattern)
    for role in options["roles"]:
        if not isinstance(part, HolderPart):
            raise UserError("a role has no roles", "give it the rights themselves")
        if role not in document.roles:
            raise UserError(
                f"there is no role {role}", "make it: registry-access grant role:NAME --read ..."
            )
        if role not in part.roles:
            part.roles.append(role)


def _take(held: list[str], given: str, missing: str) -> None:
    if given not in held:
        raise UserError(missing, "see 'tallymark registry-access list'")
    held.remove(given)


def _check_name(name: str) -> None:
    try:
        check_name(name)
    except ValueError as error:
        raise UserError(str(error)) from None


def _holder(text: str) -> tuple[str, str]:
    kind, colon, name = text.partition(":")
    if not colon or kind not in _KINDS:
        raise UserError(f"{text!r} is no holder of rights", "write user:, token: or role:NAME")
    return kind, name


def _found(document: Document, kind: str, name: str) -> HolderPart | GrantsPart:
    found: HolderPart | GrantsPart | None = _all(document, kind).get(name)
    if found is None:
        raise UserError(f"there is no {kind} {name}", "see 'tallymark registry-access list'")
    return found


def _all(document: Document, kind: str) -> dict[str, Any]:
    found: dict[str, dict[str, Any]] = {
        "user": document.users,
        "token": document.tokens,
        "role": document.roles,
    }
    return found[kind]
