"""``tallymark users``: the users that can log in."""

from __future__ import annotations

from typing import Any

import click

from tallymark.cli.admin.security_target import opened_store, store_options
from tallymark.errors import KafkaError, UserError
from tallymark.net.sasl.mechanisms import SCRAM_SHA_256, SCRAM_SHA_512
from tallymark.net.sasl.scram import HASHES, MIN_ITERATIONS
from tallymark.net.sasl.user_checks import check_iterations, check_user
from tallymark.shell.absent import absent
from tallymark.shell.lazy_group import NamedGroup
from tallymark.shell.output import json_option, print_line, show
from tallymark.shell.passwords import password_option, read_password


@click.group("users", cls=NamedGroup)
def command() -> None:
    """Add, list and remove users (SASL: SCRAM-SHA-256, SCRAM-SHA-512, PLAIN)."""


@command.command("add")
@click.argument("name")
@click.option(
    "--mechanism",
    "mechanisms",
    type=click.Choice([SCRAM_SHA_256, SCRAM_SHA_512]),
    multiple=True,
    help="Which credentials to make, the other one stays as it is; default both. PLAIN checks "
    "these as well, SCRAM-SHA-512 first.",
)
@click.option("--iterations", type=int, default=MIN_ITERATIONS, show_default=True)
@password_option
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
    password = read_password(password_file)
    chosen = mechanisms or tuple(HASHES)
    with opened_store(options) as security:
        known = security.users().get(name)
        security.set_password(name, password, chosen, iterations)
    kept = ", ".join(sorted(set(known or ()) - set(chosen)))
    by = f" by {', '.join(chosen)}; by {kept} it logs in as before" if kept else ""
    print_line(f"{name}: {'added' if known is None else 'has a new password'}{by}")


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
        print_line(f"{name}\t{', '.join(ways)}")


@command.command("remove")
@click.argument("name")
@click.option(
    "--mechanism",
    "mechanisms",
    type=click.Choice([SCRAM_SHA_256, SCRAM_SHA_512]),
    multiple=True,
    help="Which credentials to remove; default all.",
)
@store_options
def remove(
    name: str,
    mechanisms: tuple[str, ...],
    **options: Any,
) -> None:
    """Remove the user NAME, or one of its log-ins. Open connections stay open."""
    with opened_store(options) as security:
        held = security.users().get(name)
        if held is None:
            raise absent("user", name)
        missing = [each for each in mechanisms if each not in held]
        if missing:
            raise UserError(f"{name} has no {missing[0]}", "see 'tallymark users list'")
        security.remove_credentials(name, mechanisms or tuple(held))
    left = ", ".join(sorted(set(held) - set(mechanisms))) if mechanisms else ""
    print_line(f"{name}: removed{f', but for {left}' if left else ''}")
