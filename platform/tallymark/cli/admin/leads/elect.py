"""``tallymark elect``: give partitions the leader that they should have (KIP-460)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import click

from tallymark.client.admin.admin import Admin
from tallymark.errors import UserError
from tallymark.protocol.topic_partition import TopicPartition
from tallymark.shell.absent import described_topics, named_partitions
from tallymark.shell.confirm import confirmed, destructive_options
from tallymark.shell.counted import counted
from tallymark.shell.output import end, json_option, print_line, show
from tallymark.shell.target import cluster_options, take_target

_UNCLEAN = "let replicas lead that lack records, which are lost then"


@click.command("elect")
@click.argument("kind", type=click.Choice(("preferred", "unclean")))
@click.option("-t", "--topic", "topics", multiple=True, metavar="NAME", help="Default: all topics.")
@click.option("-p", "--partitions", metavar="0,2-4", help="Only these of the topic.")
@destructive_options
@json_option
@cluster_options
def command(
    kind: str,
    topics: tuple[str, ...],
    partitions: str | None,
    dry_run: bool,
    yes: bool,
    as_json: bool,
    **options: Any,
) -> None:
    """Elect leaders.

    preferred: the first replica of each partition leads again. unclean: partitions without a leader
    get one, even if it lacks records that were acknowledged. Those are lost; it asks first.
    """
    if partitions is not None and len(topics) != 1:
        raise UserError("--partitions are those of one topic", "name it with --topic")
    unclean = kind == "unclean"
    with Admin(**take_target(options).client) as admin:
        chosen = without_leader(admin, topics) if unclean else not_preferred(admin, topics)
        if partitions is not None:
            wanted = named_partitions(admin, topics[0], partitions)
            chosen = [key for key in chosen if key in wanted]
        if not chosen:
            needed = "have a leader" if unclean else "are led by the preferred leader"
            return print_line(f"nothing to elect: all partitions {needed}", as_json)
        what = f"elect leaders of {counted(len(chosen), 'partition')}"
        if unclean:
            names = ", ".join(f"{topic}-{index}" for topic, index in chosen[:5])
            more = ", ..." if len(chosen) > 5 else ""
            what = f"{what} ({names}{more}): {_UNCLEAN}"
        if not confirmed(what, dry_run=dry_run, yes=yes or not unclean):
            return None
        found = admin.elect_leaders(chosen, unclean=unclean)
    rows = [
        {"topic": topic, "partition": index, "elected": is_new}
        for (topic, index), is_new in sorted(found.done.items())
    ]
    show(rows, ("topic", "partition", "elected"), as_json)
    return end(len(found), found.errors)


def not_preferred(admin: Admin, topics: Sequence[str]) -> list[TopicPartition]:
    """The partitions of these topics (none: of all) that their preferred replica does not lead."""
    return [key for key, leader, replicas in _leads(admin, topics) if leader != replicas[:1]]


def without_leader(admin: Admin, topics: Sequence[str]) -> list[TopicPartition]:
    """The partitions of these topics (none: of all) that have no leader."""
    return [key for key, leader, _ in _leads(admin, topics) if not leader]


def _leads(
    admin: Admin, topics: Sequence[str]
) -> list[tuple[TopicPartition, tuple[int, ...], tuple[int, ...]]]:
    """(partition, its leader if there is one, its replicas); the error of a topic that is not."""
    described = described_topics(admin, topics)
    return [
        ((topic.name, each.partition), (each.leader,) if each.leader >= 0 else (), each.replicas)
        for topic in described.values()
        for each in topic.partitions
    ]
