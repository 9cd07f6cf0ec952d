"""``tallymark offsets``: how far consumers are behind, and where logs begin and end."""

from __future__ import annotations

from functools import partial
from typing import Any

import click

from tallymark.cli.admin.group_stores import GroupStore, opened_stores, store_options
from tallymark.cli.admin.lag_rows import LAG_COLUMNS, lag_row
from tallymark.client.admin.admin import Admin
from tallymark.client.admin.groups import GroupDescription, GroupListing
from tallymark.errors import KafkaError, TallymarkError
from tallymark.protocol.topic_partition import EARLIEST, LATEST
from tallymark.shell.absent import absent, described_topics
from tallymark.shell.lazy_group import NamedGroup
from tallymark.shell.named import several_named
from tallymark.shell.output import end, json_option, show
from tallymark.shell.positions import parse_time
from tallymark.shell.progress import progress
from tallymark.shell.target import cluster_options, take_target

_TIME = "The first message of that time instead: 2026-01-31T12:00:00Z, or 10m for ten minutes ago."


@click.group("offsets", cls=NamedGroup)
def command() -> None:
    """Offsets of consumer groups and of logs."""


@command.command("check")
@click.option("-g", "--group", "groups", multiple=True, metavar="NAME", help="Only these groups.")
@click.option("-t", "--topic", "topics", multiple=True, metavar="NAME", help="Only these topics.")
@json_option
@store_options
@cluster_options
def check(groups: tuple[str, ...], topics: tuple[str, ...], as_json: bool, **options: Any) -> None:
    """Print every group's offset, the size of the log, the lag and the owner, by partition.

    Groups of the brokers and of ZooKeeper. Exits with 0, with 1 when nothing could be found out,
    with 2 when a part could not.
    """
    rows: list[dict[str, Any]] = []
    errors: list[TallymarkError] = []
    seen: set[str] = set()
    with opened_stores(options) as (admin, stores):
        for store in stores:
            listed, failed = store.listing()
            errors += failed
            wanted = [one for one in listed.values() if not groups or one.group in groups]
            seen |= {one.group for one in wanted}
            with progress(f"groups of {store.where}", len(wanted)) as meter:
                for number, listing in enumerate(wanted):
                    meter.tick(partial(_so_far, number, listing.group))
                    found, failed = _lags(admin, store, listing)
                    errors += failed
                    rows += (row for row in found if not topics or row["topic"] in topics)
        # A group may have offsets of a topic that was deleted: that one is found by its rows.
        unread = set(topics) - {row["topic"] for row in rows}
        there = admin.topics() if unread else {}
    missing = [
        *(absent("group", name) for name in groups if name not in seen),
        *(absent("topic", name) for name in topics if name in unread and name not in there),
    ]
    show(rows, LAG_COLUMNS, as_json)
    end(len(rows), [*missing, *errors])


@command.command("list")
@several_named("topic", "names")
@click.option("--time", metavar="TIME", help=_TIME)
@json_option
@cluster_options
def list_offsets(names: tuple[str, ...], time: str | None, as_json: bool, **options: Any) -> None:
    """Print the first and the next offset of every partition of topics."""
    with Admin(**take_target(options).client) as admin:
        partitions = [
            (topic.name, part.partition)
            for topic in described_topics(admin, names).values()
            for part in topic.partitions
        ]
        if time is not None:
            found = admin.list_offsets(dict.fromkeys(partitions, parse_time(time).value))
            rows = [
                {
                    "topic": at[0],
                    "partition": at[1],
                    "offset": one.offset,
                    "timestamp": one.timestamp,
                }
                for at, one in found.done.items()
            ]
            show(rows, ("topic", "partition", "offset", "timestamp"), as_json)
            end(len(rows), found.errors)
            return
        starts = admin.list_offsets(dict.fromkeys(partitions, EARLIEST))
        ends = admin.list_offsets(dict.fromkeys(starts.done, LATEST))
    rows = [
        {"topic": at[0], "partition": at[1], "first": starts[at].offset, "next": one.offset}
        for at, one in ends.done.items()
    ]
    show(rows, ("topic", "partition", "first", "next"), as_json)
    end(len(rows), {**starts.errors, **ends.errors})


def _so_far(number: int, group: str) -> tuple[int, str]:
    return number, group


def _lags(
    admin: Admin, store: GroupStore, listing: GroupListing
) -> tuple[list[dict[str, Any]], list[TallymarkError]]:
    try:
        try:
            group = store.describe(listing.group)
        except KafkaError as error:
            if error.name != "GROUP_ID_NOT_FOUND":
                raise
            # Of a protocol that DescribeGroups does not know (KIP-848): without its owners.
            group = GroupDescription(listing.group, listing.state)
        lags = admin.lag_of(group, store.offsets(listing.group))
    except TallymarkError as error:
        return [], [error]
    rows = [lag_row(listing.group, lag) for lag in lags]
    return rows, [lag.error for lag in lags if lag.error is not None]
