"""``tallymark groups reset``: set the positions of a group."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import click

from tallymark.cli.admin.group_stores import (
    GroupStore,
    look_for_group,
    opened_stores,
    store_options,
)
from tallymark.client.admin.admin import Admin
from tallymark.client.admin.reset import OffsetReset, OffsetTarget
from tallymark.errors import KafkaError, TallymarkError, UserError
from tallymark.protocol.topic_partition import TopicPartition
from tallymark.shell.absent import named_partitions
from tallymark.shell.confirm import confirmed, destructive_options
from tallymark.shell.counted import counted
from tallymark.shell.named import one_named
from tallymark.shell.output import end, json_option, print_line, show
from tallymark.shell.positions import parse_time
from tallymark.shell.target import cluster_options

_TOPICS = "TOPIC, or TOPIC:0,2-4 for some of its partitions. Repeatable."
_TIME = "Its first message of that time: 2026-01-31T12:00:00Z, or 10m for ten minutes ago."


@click.command("reset")
@one_named("group", "group")
@click.option("-t", "--topic", "topics", multiple=True, metavar="TOPIC[:PARTITIONS]", help=_TOPICS)
@click.option("--all-topics", is_flag=True, help="Everything that the group has an offset for.")
@click.option("--to-earliest", is_flag=True, help="The beginning of each log.")
@click.option("--to-latest", is_flag=True, help="The end of each log: skip what is there.")
@click.option("--to-time", metavar="TIME", help=_TIME)
@click.option("--to-offset", type=click.IntRange(min=0), help="This offset.")
@click.option("--shift-by", type=int, metavar="N", help="So many records on; back if negative.")
@destructive_options
@json_option
@store_options
@cluster_options
def reset(
    group: str,
    topics: tuple[str, ...],
    all_topics: bool,
    dry_run: bool,
    yes: bool,
    as_json: bool,
    **options: Any,
) -> None:
    """Set the positions of the GROUP. All its consumers must be stopped.

    A target outside of a log is moved to the log's nearest end. A group that does not exist is
    made: at the brokers, unless --kept zookeeper.
    """
    target = _target(options)
    if bool(topics) == all_topics:
        raise UserError("which topics?", "give --topic, or --all-topics")
    with opened_stores(options) as (admin, stores):
        store, current = _found(stores, group)
        partitions = sorted(current) if all_topics else _named(admin, topics)
        if not partitions:
            raise UserError(f"the group {group} has no offsets", "give --topic")
        plan = admin.plan_reset(partitions, target, current)
        show((_row(at, one) for at, one in plan.done.items()), _COLUMNS, as_json)
        errors: Mapping[TopicPartition, TallymarkError] = plan.errors
        stored = 0
        what = f"reset {group} in {counted(len(plan), 'partition')}"
        if plan.done and confirmed(what, dry_run=dry_run, yes=yes):
            failed = _stored(store, group, {at: one.after for at, one in plan.done.items()})
            errors = {**errors, **failed}
            stored = len(plan) - len(failed)
            if stored:
                print_line(f"{group}: reset in {counted(stored, 'partition')}", as_json)
    end(stored or (len(plan) if dry_run else 0), errors)


_COLUMNS = ("topic", "partition", "before", "after", "by", "moved")


def _target(options: dict[str, Any]) -> OffsetTarget:
    given: list[OffsetTarget] = []
    if options.pop("to_earliest"):
        given.append(OffsetTarget("earliest"))
    if options.pop("to_latest"):
        given.append(OffsetTarget("latest"))
    if (time := options.pop("to_time")) is not None:
        given.append(OffsetTarget("time", parse_time(time).value))
    if (offset := options.pop("to_offset")) is not None:
        given.append(OffsetTarget("offset", offset))
    if (shift := options.pop("shift_by")) is not None:
        given.append(OffsetTarget("shift", shift))
    if len(given) != 1:
        raise UserError(
            "where to?",
            "give one of --to-earliest, --to-latest, --to-time, --to-offset, --shift-by",
        )
    return given[0]


def _found(
    stores: Sequence[GroupStore], group: str
) -> tuple[GroupStore, dict[TopicPartition, int]]:
    """The store of the group, and its position; the first store for a group that is in none."""
    found = look_for_group(stores, group)
    if found is None:
        return stores[0], {}
    store, state = found
    if state.members:
        raise UserError(
            f"the group {group} has {counted(len(state.members), 'member')}",
            "stop its consumers first",
        )
    return store, store.offsets(group)


def _named(admin: Admin, topics: Iterable[str]) -> list[TopicPartition]:
    found: dict[TopicPartition, None] = {}
    for text in topics:
        name, colon, numbers = text.partition(":")
        found |= dict.fromkeys(named_partitions(admin, name, numbers if colon else None))
    return list(found)


def _stored(
    store: GroupStore, group: str, offsets: Mapping[TopicPartition, int]
) -> Mapping[TopicPartition, TallymarkError]:
    try:
        return store.set_offsets(group, offsets)
    except KafkaError as error:
        return dict.fromkeys(offsets, error)


def _row(at: TopicPartition, reset: OffsetReset) -> dict[str, Any]:
    return {
        "topic": at[0],
        "partition": at[1],
        "before": reset.before,
        "after": reset.after,
        "by": reset.records,
        "moved": reset.moved,
    }
