"""``tallymark users``: who can log in."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import click

from tallymark.broker.users import check_iterations, check_user
from tallymark.cli.output import json_option, show
from tallymark.cli.security_target import opened_store, store_options
from tallymark.errors import KafkaError, UserError
from tallymark.net.sasl import SCRAM_SHA_256, SCRAM_SHA_512
from tallymark.net.scram import HASHES, MIN_ITERATIONS


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
    **options: Any,
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
    with opened_store(options) as security:
        known = name in security.users()
        # A password that is changed for one mechanism does not go on working by the other.
        security.set_password(name, password, mechanisms or tuple(HASHES), iterations)
    click.echo(f"{name}: {'has a new password' if known else 'added'}")


@command.command("list")
@json_option
@store_options
def list_users(as_json: bool, **options: Any) -> None:
    """Print every user, and how it can log in."""
    with opened_store(options) as security:
        users = security.users()
    if as_json:
        rows = [{"user": name, "iterations": dict(held)} for name, held in sorted(users.items())]
        show(rows, (), as_json)
        return
    for name, held in sorted(users.items()):
        ways = (f"{mechanism} {held[mechanism]} iterations" for mechanism in sorted(held))
        click.echo(f"{name}\t{', '.join(ways)}")


@command.command("remove")
@click.argument("name")
@store_options
def remove(
    name: str,
    **options: Any,
) -> None:
    """Remove the user NAME. Connections that are open stay open."""
    with opened_store(options) as security:
        if name not in security.users():
            raise UserError(f"there is no user {name}", "see 'tallymark users list'")
        security.remove_user(name)
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
