"""``tallymark topics``: list, create, describe, change and delete topics."""

from __future__ import annotations

from typing import Any

import click

from tallymark.cli.admin.topic_configs import config, pairs
from tallymark.cli.admin.topic_records import delete_records
from tallymark.client.admin.admin import Admin
from tallymark.client.admin.results import Results
from tallymark.client.admin.topic_admin import CreatedTopic, NewTopic
from tallymark.client.admin.topics import TopicDescription
from tallymark.errors import KafkaError, UserError
from tallymark.protocol.topic_partition import EARLIEST, LATEST
from tallymark.shell.absent import absent, asking_about, explained
from tallymark.shell.confirm import confirmed, destructive_options
from tallymark.shell.counted import counted
from tallymark.shell.lazy_group import NamedGroup
from tallymark.shell.named import one_named, several_named
from tallymark.shell.output import end, json_option, print_line, show
from tallymark.shell.target import cluster_options, take_target


@click.group("topics", cls=NamedGroup)
def command() -> None:
    """List, create, describe, change and delete topics."""


command.add_command(config)
command.add_command(delete_records)


@command.command("list")
@click.option("--internal", is_flag=True, help="The cluster's own topics, too.")
@json_option
@cluster_options
def list_topics(internal: bool, as_json: bool, **options: Any) -> None:
    """Print every topic: partitions, replicas of each, and how many partitions have a problem."""
    with Admin(**take_target(options).client) as admin:
        topics = admin.describe_topics()
    found = [topic for topic in topics.done.values() if internal or not topic.internal]
    rows = map(_summary, sorted(found, key=lambda topic: topic.name))
    show(rows, ("topic", "partitions", "replicas", "under-replicated", "leaderless"), as_json)
    end(len(found), topics.errors)


@command.command("create")
@one_named("topic", "name")
@click.option("-p", "--partitions", type=click.IntRange(min=1), help="Default: the cluster's.")
@click.option("--replication-factor", type=click.IntRange(min=1), help="Default: the cluster's.")
@click.option(
    "--replicas",
    metavar="0:1,1:2,...",
    help="Place each partition by hand: broker ids of its replicas, the preferred one first.",
)
@click.option("--config", "configs", multiple=True, metavar="KEY=VALUE", help="Repeatable.")
@click.option("--dry-run", is_flag=True, help="Check without a change.")
@cluster_options
def create(
    name: str,
    partitions: int | None,
    replication_factor: int | None,
    replicas: str | None,
    configs: tuple[str, ...],
    dry_run: bool,
    **options: Any,
) -> None:
    """Create the topic NAME; no error if it exists."""
    if replicas and (partitions or replication_factor):
        raise UserError("--replicas says how many partitions and replicas", "give it alone")
    topic = NewTopic(
        name,
        partitions or -1,
        replication_factor or -1,
        pairs(configs, "--config"),
        _placed(replicas) if replicas else {},
    )
    with Admin(**take_target(options).client) as admin:
        made = admin.create_topics([topic], validate_only=dry_run)
        print_line(f"{name}: {_created(made, name, dry_run)}")


@command.command("grow")
@one_named("topic", "name")
@click.option("-p", "--partitions", type=click.IntRange(min=2), required=True, help="In all.")
@destructive_options
@cluster_options
def grow(name: str, partitions: int, dry_run: bool, yes: bool, **options: Any) -> None:
    """Give the topic NAME more partitions. Keys will go to other partitions than before."""
    what = f"grow {name} to {counted(partitions, 'partition')}, which cannot be undone"
    with Admin(**take_target(options).client) as admin, asking_about("topic", name):
        admin.create_partitions({name: partitions}, validate_only=True).check()
        if confirmed(what, dry_run=dry_run, yes=yes):
            admin.create_partitions({name: partitions}).check()
            print_line(f"{name}: {counted(partitions, 'partition')}")


@command.command("delete")
@several_named("topic", "names")
@destructive_options
@cluster_options
def delete(names: tuple[str, ...], dry_run: bool, yes: bool, **options: Any) -> None:
    """Delete topics with all their messages."""
    with Admin(**take_target(options).client) as admin:
        known = admin.topics()
        missing = [absent("topic", name) for name in names if name not in known]
        there = [name for name in names if name in known]
        gone: Results[str, None] = Results()
        what = f"delete {', '.join(there)} with all messages"
        if there and confirmed(what, dry_run=dry_run, yes=yes):
            gone = admin.delete_topics(there)
    for name in gone:
        print_line(f"{name}: deleted")
    if len(names) == 1 and missing:
        raise missing[0]
    end(len(gone) if not dry_run else len(there), [*missing, *gone.errors.values()])


@command.command("describe")
@several_named("topic", "names")
@json_option
@cluster_options
def describe(names: tuple[str, ...], as_json: bool, **options: Any) -> None:
    """Print the partitions of topics: leader, epoch, replicas, first and next offset."""
    with Admin(**take_target(options).client) as admin:
        topics = admin.describe_topics(names)
        missing = [explained("topic", name, error) for name, error in topics.errors.items()]
        if len(names) == 1 and missing:
            raise missing[0]
        rows = [row for topic in topics.done.values() for row in _partitions(admin, topic)]
    columns = ("topic", "partition", "leader", "epoch", "replicas", "isr", "first", "next")
    if not as_json:
        for topic in topics.done.values():
            size = counted(len(topic.partitions), "partition")
            print_line(f"{topic.name}\tid {topic.topic_id}\t{size}")
    show(rows, columns, as_json)
    end(len(topics), missing)


def _summary(topic: TopicDescription) -> dict[str, Any]:
    return {
        "topic": topic.name,
        "id": str(topic.topic_id),
        "internal": topic.internal,
        "partitions": len(topic.partitions),
        "replicas": max((len(part.replicas) for part in topic.partitions), default=0),
        "under-replicated": sum(part.under_replicated for part in topic.partitions),
        "leaderless": sum(part.leader < 0 for part in topic.partitions),
    }


def _partitions(admin: Admin, topic: TopicDescription) -> list[dict[str, Any]]:
    places = [(topic.name, part.partition) for part in topic.partitions if part.leader >= 0]
    starts = admin.list_offsets(dict.fromkeys(places, EARLIEST)).done
    ends = admin.list_offsets(dict.fromkeys(places, LATEST)).done
    rows: list[dict[str, Any]] = []
    for part in topic.partitions:
        at = (topic.name, part.partition)
        rows.append(
            {
                "topic": topic.name,
                "id": str(topic.topic_id),
                "partition": part.partition,
                "leader": part.leader if part.leader >= 0 else None,
                "epoch": part.leader_epoch,
                "replicas": list(part.replicas),
                "isr": list(part.isr),
                "offline": list(part.offline),
                "first": starts[at].offset if at in starts else None,
                "next": ends[at].offset if at in ends else None,
            }
        )
    return rows


def _placed(text: str) -> dict[int, list[int]]:
    try:
        parts = [[int(broker) for broker in part.split(":")] for part in text.split(",")]
    except ValueError:
        raise UserError(
            f"--replicas {text!r} is not broker:broker,...", "for example 0:1,1:2"
        ) from None
    return dict(enumerate(parts))


def _created(made: Results[str, CreatedTopic], name: str, dry_run: bool) -> str:
    try:
        made.check()
    except KafkaError as error:
        if error.name == "TOPIC_ALREADY_EXISTS":
            return "was there"
        raise
    return "would be created" if dry_run else "created"
