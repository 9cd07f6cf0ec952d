"""``tallymark topics delete-records``: the oldest messages of a topic, before its retention."""

from __future__ import annotations

from typing import Any

import click

from tallymark.client.admin.admin import Admin
from tallymark.client.admin.records import END_OF_LOG
from tallymark.client.admin.results import Results
from tallymark.errors import TallymarkError, UserError
from tallymark.protocol.topic_partition import EARLIEST, LATEST, TopicPartition
from tallymark.shell.absent import named_partitions
from tallymark.shell.confirm import confirmed, destructive_options
from tallymark.shell.counted import counted
from tallymark.shell.named import one_named
from tallymark.shell.output import end, json_option, print_line, show
from tallymark.shell.positions import parse_time
from tallymark.shell.target import cluster_options, take_target

_TIME = "Delete what is older: 2026-01-31T12:00:00Z, or 7d for seven days ago."


@click.command("delete-records")
@one_named("topic", "name")
@click.option("--before-offset", type=click.IntRange(min=0), help="Delete what is below it.")
@click.option("--before-time", metavar="TIME", help=_TIME)
@click.option("--everything", is_flag=True, help="Delete all that is there now.")
@click.option("-p", "--partitions", metavar="0,2-4", help="Only these.")
@destructive_options
@json_option
@cluster_options
def delete_records(
    name: str,
    before_offset: int | None,
    before_time: str | None,
    everything: bool,
    partitions: str | None,
    dry_run: bool,
    yes: bool,
    as_json: bool,
    **options: Any,
) -> None:
    """Delete the oldest messages of the topic NAME. Offsets of what is left stay as they are."""
    if sum((before_offset is not None, before_time is not None, everything)) != 1:
        raise UserError(
            "which messages?", "give one of --before-offset, --before-time and --everything"
        )
    with Admin(**take_target(options).client) as admin:
        chosen = named_partitions(admin, name, partitions)
        plan = _plan(admin, chosen, before_offset, before_time)
        starts = {
            at: one.offset or 0
            for at, one in admin.list_offsets(dict.fromkeys(plan.done, EARLIEST)).check().items()
        }
        lost = sum(max(0, plan.done[at] - starts[at]) for at in plan.done)
        show(
            (
                {"topic": at[0], "partition": at[1], "first": starts[at], "delete-below": below}
                for at, below in plan.done.items()
            ),
            ("topic", "partition", "first", "delete-below"),
            as_json,
        )
        what = f"delete up to {counted(lost, 'message')} of {name}"
        if not plan.done or not confirmed(what, dry_run=dry_run, yes=yes):
            end(len(plan), plan.errors)
            return
        deleted = admin.delete_records(plan.done)
    if deleted.done:
        print_line(f"{name}: deleted in {counted(len(deleted), 'partition')}", as_json)
    end(len(deleted), {**plan.errors, **deleted.errors})


def _plan(
    admin: Admin, chosen: list[TopicPartition], offset: int | None, time: str | None
) -> Results[TopicPartition, int]:
    """Below which offset each partition is deleted."""
    ends = admin.list_offsets(dict.fromkeys(chosen, LATEST))
    last = {at: one.offset or 0 for at, one in ends.done.items()}
    if offset is not None:
        # A broker refuses what is behind the end: so --dry-run has to say so, too.
        beyond = {at: _beyond(at, offset, end) for at, end in last.items() if offset > end}
        below = {at: offset for at in last if at not in beyond}
        return Results(below, {**ends.errors, **beyond})
    if time is None:
        return Results(last, ends.errors)
    found = admin.offsets_at(last, parse_time(time).value)
    below = {at: last[at] if one == END_OF_LOG else one for at, one in found.done.items()}
    return Results(below, {**ends.errors, **found.errors})


def _beyond(at: TopicPartition, offset: int, end: int) -> TallymarkError:
    return UserError(
        f"{at[0]}-{at[1]} ends at offset {end}, before {offset}", "give a smaller --before-offset"
    )
