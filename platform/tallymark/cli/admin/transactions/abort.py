"""``tallymark transactions abort``: ends a transaction in one partition, past its coordinator."""

from __future__ import annotations

from typing import Any

import click

from tallymark import clock
from tallymark.cli.admin.transactions.rows import OPEN, opened
from tallymark.client.admin.admin import Admin
from tallymark.client.admin.transactions.hanging import Judged, Standing
from tallymark.errors import UserError
from tallymark.protocol.topic_partition import LATEST, TopicPartition
from tallymark.shell.absent import named_partitions
from tallymark.shell.confirm import confirmed, destructive_options
from tallymark.shell.named import one_named
from tallymark.shell.output import json_option, print_line, show
from tallymark.shell.target import cluster_options, take_target


@click.command("abort")
@one_named("topic", "name")
@click.option("-p", "--partition", type=click.IntRange(min=0), required=True, help="Its number.")
@click.option("--start-offset", type=click.IntRange(min=0), help="Where the transaction begins.")
@click.option("--producer-id", type=click.IntRange(min=0), help="Or: whose it is.")
@click.option("--force", is_flag=True, help="Also where its coordinator may still end it.")
@destructive_options
@json_option
@cluster_options
def abort(
    name: str,
    partition: int,
    start_offset: int | None,
    producer_id: int | None,
    force: bool,
    dry_run: bool,
    yes: bool,
    as_json: bool,
    **options: Any,
) -> None:
    """Abort a hanging transaction in one partition of a TOPIC: committed messages behind it can be
    read again, its own never.

    One that its coordinator has open is refused: its producer, or the coordinator after the
    timeout, ends it, in all partitions alike.
    """
    if (start_offset is None) == (producer_id is None):
        raise UserError("which transaction?", "give one of --start-offset and --producer-id")
    at = name, partition
    with Admin(**take_target(options).client) as admin:
        named_partitions(admin, name, str(partition))  # raises where there is none
        one = _chosen(admin, at, start_offset, producer_id)
        if one.verdict is not Standing.HANGING and not force:
            raise UserError(
                f"{_named(one)} is not known to hang: {one.why}",
                "let its producer or its coordinator end it; with --force only this partition is "
                "aborted, whatever becomes of the others",
            )
        show([opened(one, clock.now_ms())], OPEN, as_json)
        stable, end = _ends(admin, at)
        behind = f"readers of committed messages stand at {stable}, {end - stable} before the end"
        if not confirmed(f"abort {_named(one)} ({behind})", dry_run=dry_run, yes=yes):
            return
        admin.abort_in_partition(one.open)
        stable, end = _ends(admin, at)
    rest = "which is the end" if stable == end else f"{end - stable} before the end"
    print_line(f"{name}-{partition}: aborted; committed readers get to {stable}, {rest}", as_json)


def _chosen(
    admin: Admin, at: TopicPartition, start_offset: int | None, producer_id: int | None
) -> Judged:
    found = admin.open_transactions([at])
    where = f"{at[0]}-{at[1]}"
    if where in found.errors:
        raise found.errors[where]
    for one in found.judged:
        if one.open.start_offset == start_offset or one.open.producer_id == producer_id:
            return one
    others = ", ".join(
        f"{one.open.start_offset} (producer {one.open.producer_id})" for one in found.judged
    )
    raise UserError(
        f"no such transaction is open in {where}",
        f"open there from: {others}"
        if others
        else "none is open there: it may have ended just now",
    )


def _named(one: Judged) -> str:
    topic, index = one.open.partition
    return (
        f"the transaction of producer {one.open.producer_id} in {topic}-{index} "
        f"from offset {one.open.start_offset}"
    )


def _ends(admin: Admin, at: TopicPartition) -> tuple[int, int]:
    """Where committed messages end, and where all do."""
    stable = admin.list_offsets({at: LATEST}, isolation="read_committed")[at].offset or 0
    return stable, admin.list_offsets({at: LATEST})[at].offset or 0
