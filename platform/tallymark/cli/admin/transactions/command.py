"""``tallymark transactions``: transactional ids, and transactions that hang."""

from __future__ import annotations

from typing import Any

import click

from tallymark import clock
from tallymark.cli.admin.transactions.abort import abort
from tallymark.cli.admin.transactions.open_ones import find_hanging, producers
from tallymark.cli.admin.transactions.rows import DESCRIBED, LISTED, described, listed
from tallymark.client.admin.admin import Admin
from tallymark.client.admin.transactions.describing import TransactionFilter
from tallymark.errors import UserError
from tallymark.shell.absent import explained
from tallymark.shell.lazy_group import NamedGroup
from tallymark.shell.output import end, json_option, show
from tallymark.shell.target import cluster_options, take_target
from tallymark.shell.times import duration_ms


@click.group("transactions", cls=NamedGroup)
def command() -> None:
    """List and describe transactions; find those that hang, and abort them."""


command.add_command(producers)
command.add_command(find_hanging)
command.add_command(abort)


@command.command("list")
@click.option(
    "--state", "states", multiple=True, metavar="NAME", help="Ongoing, CompleteCommit ..."
)
@click.option("--producer-id", "ids", multiple=True, type=click.IntRange(min=0), help="Only these.")
@click.option("--open-for", metavar="TIME", help="Only what is open for so long: 10m, 2h, 7d.")
@click.option("--pattern", metavar="RE", help="Only ids that this RE2 pattern matches as a whole.")
@json_option
@cluster_options
def list_transactions(
    states: tuple[str, ...],
    ids: tuple[int, ...],
    open_for: str | None,
    pattern: str | None,
    as_json: bool,
    **options: Any,
) -> None:
    """Print every transactional id, its state and its coordinator."""
    only = TransactionFilter(states, ids, open_for_ms(open_for), pattern)
    with Admin(**take_target(options).client) as admin:
        found = admin.list_transactions(only)
    if found.unknown_states:
        raise UserError(
            f"no transaction is ever in the state {found.unknown_states[0]!r}",
            "states are Empty, Ongoing, PrepareCommit, PrepareAbort, CompleteCommit, CompleteAbort",
        )
    show(map(listed, found.transactions.values()), LISTED, as_json)
    end(len(found.transactions), found.errors)


@command.command("describe")
@click.argument("ids", nargs=-1, required=True, metavar="TRANSACTIONAL-ID...")
@json_option
@cluster_options
def describe(ids: tuple[str, ...], as_json: bool, **options: Any) -> None:
    """Print what the coordinators know of transactional ids, and how it stands in each partition
    of their transactions."""
    now = clock.now_ms()
    with Admin(**take_target(options).client) as admin:
        found = admin.describe_transactions(ids)
        wanted = {at for known in found.done.values() for at in known.partitions}
        there = admin.describe_producers(sorted(wanted))
    rows = [
        row
        for known in found.done.values()
        for row in described(
            known, [(at, there.done.get(at)) for at in sorted(known.partitions)], now
        )
    ]
    failed = [explained("transactional id", name, error) for name, error in found.errors.items()]
    if len(ids) == 1 and failed:
        raise failed[0]
    show(rows, DESCRIBED, as_json)
    end(len(found), [*failed, *there.errors.values()])


def open_for_ms(text: str | None) -> int | None:
    """``10m`` as ms. UserError."""
    if text is None:
        return None
    found = duration_ms(text)
    if found is None:
        raise UserError(f"{text!r} is no time", "give 90s, 10m, 2h or 7d")
    return found
