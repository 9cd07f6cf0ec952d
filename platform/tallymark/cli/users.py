"""``tallymark users``: who can log in."""

from __future__ import annotations

import secrets
import sys
from pathlib import Path

import click

from tallymark.broker.users import (
    check_iterations,
    check_user,
    parse_credential,
    stored_text,
)
from tallymark.cli.security_target import opened_store, store_options
from tallymark.errors import KafkaError, UserError
from tallymark.net.sasl import SCRAM_SHA_256, SCRAM_SHA_512
from tallymark.net.scram import HASHES, MIN_ITERATIONS, ScramCredential

_SALT_BYTES = 32


@click.group("users")
def command() -> None:
    """Add, list and remove users (SASL: SCRAM-SHA-256, SCRAM-SHA-512, PLAIN)."""


@command.command("add")
@click.argument("name")
@click.option(
    "--mechanism",
    "mechanisms",
    type=click.Choice([SCRAM_SHA_256, SCRAM_SHA_512]),
    multiple=True,
    help="Which credentials to make; default both. PLAIN checks these as well.",
)
@click.option("--iterations", type=int, default=MIN_ITERATIONS, show_default=True)
@click.option(
    "--password-file",
    type=click.Path(dir_okay=False),
    help="A file whose first line is the password; - is standard input. Default: ask.",
)
@store_options
def add(
    name: str,
    mechanisms: tuple[str, ...],
    iterations: int,
    password_file: str | None,
    cluster: str | None,
    settings: str | None,
    zookeeper: str | None,
    data: str | None,
) -> None:
    """Add the user NAME, or give it another password.

    The password is never an argument, where other users of the machine could see it.
    """
    try:
        check_user(name)
        check_iterations(iterations)
    except KafkaError as error:
        raise UserError(error.context) from None
    password = _password(password_file)
    made: dict[str, str | None] = {
        mechanism: stored_text(
            ScramCredential.of_password(
                mechanism, password, secrets.token_bytes(_SALT_BYTES), iterations
            )
        )
        for mechanism in mechanisms or HASHES
    }
    # A password that is changed for one mechanism must not go on working by the other.
    removed: dict[str, str | None] = {m: None for m in HASHES if m not in made}
    with opened_store(cluster, settings, zookeeper, data) as store:
        known = any(mechanism in store.read().users.get(name, {}) for mechanism in HASHES)
        store.alter_user(name, {**removed, **made})
    click.echo(f"{name}: {'has a new password' if known else 'added'}")


@command.command("list")
@store_options
def list_users(
    cluster: str | None, settings: str | None, zookeeper: str | None, data: str | None
) -> None:
    """Print every user, and how it can log in."""
    with opened_store(cluster, settings, zookeeper, data) as store:
        users = store.read().users
    for name, configs in sorted(users.items()):
        held = [mechanism for mechanism in HASHES if mechanism in configs]
        if held:
            ways = (f"{m} {parse_credential(m, configs[m]).iterations} iterations" for m in held)
            click.echo(f"{name}\t{', '.join(ways)}")


@command.command("remove")
@click.argument("name")
@store_options
def remove(
    name: str,
    cluster: str | None,
    settings: str | None,
    zookeeper: str | None,
    data: str | None,
) -> None:
    """Remove the user NAME. Connections that are open stay open."""
    with opened_store(cluster, settings, zookeeper, data) as store:
        if not any(mechanism in store.read().users.get(name, {}) for mechanism in HASHES):
            raise UserError(f"there is no user {name}", "see 'tallymark users list'")
        store.alter_user(name, dict.fromkeys(HASHES))
    click.echo(f"{name}: removed")


def _password(path: str | None) -> str:
    if path is None:
        if not sys.stdin.isatty():
            raise UserError(
                "there is no terminal to ask for the password at", "give --password-file FILE or -"
            )
        return str(click.prompt("Password", hide_input=True, confirmation_prompt=True))
    try:
        text = sys.stdin.read() if path == "-" else Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"cannot read the password from {path}: {error}") from error
    password = text.split("\n", 1)[0].rstrip("\r")
    if not password:
        raise UserError(f"the first line of {path} is empty", "it is to be the password")
    return password
