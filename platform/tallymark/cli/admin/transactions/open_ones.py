"""``tallymark transactions producers`` and ``find-hanging``: what is open in partitions."""

from __future__ import annotations

from typing import Any

import click

from tallymark import clock
from tallymark.cli.admin.transactions.rows import OPEN, PRODUCERS, opened, producer
from tallymark.client.admin.admin import Admin
from tallymark.client.admin.transactions.hanging import Standing
from tallymark.protocol.topic_partition import TRANSACTIONS_TOPIC, TopicPartition
from tallymark.shell.absent import absent, described_topics, named_partitions
from tallymark.shell.counted import counted
from tallymark.shell.named import one_named, several_named
from tallymark.shell.output import end, json_option, print_line, show
from tallymark.shell.target import cluster_options, take_target


@click.command("producers")
@one_named("topic", "name")
@click.option("-p", "--partitions", metavar="0,2-4", help="Only these.")
@json_option
@cluster_options
def producers(name: str, partitions: str | None, as_json: bool, **options: Any) -> None:
    """Print the producers that the partitions of a topic remember, with the first offsets of their
    open transactions."""
    with Admin(**take_target(options).client) as admin:
        found = admin.describe_producers(named_partitions(admin, name, partitions))
    rows = [producer(at, one) for at, there in found.done.items() for one in there]
    show(rows, PRODUCERS, as_json)
    end(len(found), found.errors)


@click.command("find-hanging")
@several_named("topic", "names", required=False)
@click.option("--broker", type=click.IntRange(min=0), help="Only partitions that it leads.")
@click.option("--all", "all_open", is_flag=True, help="Also open transactions that do not hang.")
@json_option
@cluster_options
def find_hanging(
    names: tuple[str, ...], broker: int | None, all_open: bool, as_json: bool, **options: Any
) -> None:
    """Print transactions that are open in a partition and that no coordinator will end: readers of
    committed messages wait there for ever. Abort them with 'tallymark transactions abort'.

    Looks into all topics, also the cluster's own, or into the TOPICs. It needs READ on them and
    DESCRIBE on all transactional ids: what it may not see looks like what does not exist. Exits
    with 0 also where something hangs, with 2 where something could not be asked.
    """
    now = clock.now_ms()
    with Admin(**take_target(options).client) as admin:
        wanted = _partitions(admin, names, broker)
        found = admin.open_transactions(wanted)
    shown = [
        one
        for one in found.judged
        if all_open or one.verdict in (Standing.HANGING, Standing.UNDECIDED)
    ]
    if shown or as_json:
        show((opened(one, now) for one in shown), OPEN, as_json)
    else:
        there = len({one.open.partition for one in found.judged})
        looked_at = counted(len(wanted), "partition")
        print_line(f"nothing hangs; open transactions: in {there} of {looked_at}")
    end(len(wanted) - len(found.errors), found.errors)


def _partitions(admin: Admin, names: tuple[str, ...], broker: int | None) -> list[TopicPartition]:
    described = described_topics(admin, names)
    found = [
        (topic.name, part.partition)
        for topic in described.values()
        for part in topic.partitions
        if broker is None or part.leader == broker
    ]
    if broker is not None and broker not in admin.brokers():
        raise absent("broker", broker)
    return sorted(at for at in found if at[0] != TRANSACTIONS_TOPIC)
