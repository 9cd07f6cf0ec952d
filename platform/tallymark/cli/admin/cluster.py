"""``tallymark cluster``: the brokers of a cluster, the APIs they speak, and its health."""

from __future__ import annotations

from typing import Any, Final

import click

from tallymark.client.admin.admin import Admin
from tallymark.client.admin.cluster import ClusterDescription, LogDir
from tallymark.client.admin.results import Results
from tallymark.client.admin.topics import TopicDescription
from tallymark.errors import UserError
from tallymark.shell.counted import counted
from tallymark.shell.lazy_group import NamedGroup
from tallymark.shell.output import end, json_option, print_line, show
from tallymark.shell.target import cluster_options, take_target

LEAST_FREE: Final = 0.05
"""A disk with less of it free is not well."""


@click.group("cluster", cls=NamedGroup, invoke_without_command=True)
@click.option("--api-versions", is_flag=True, help="The versions of each request that they serve.")
@json_option
@cluster_options
@click.pass_context
def command(context: click.Context, /, api_versions: bool, as_json: bool, **options: Any) -> None:
    """Print a cluster's id, its controller and its brokers; or its health."""
    if context.invoked_subcommand is None:
        _print_brokers(api_versions, as_json, options)
    elif api_versions or as_json or any(options.values()):
        raise UserError(
            f"options of 'cluster' stand before {context.invoked_subcommand!r}",
            f"write 'tallymark cluster {context.invoked_subcommand} OPTIONS'",
        )


@command.command("health")
@json_option
@cluster_options
def health(as_json: bool, **options: Any) -> None:
    """Print what is wrong: brokers, partitions without leader or in-sync replicas, disks.

    Exits with 0 when all is well, with 1 when something is not.
    """
    with Admin(**take_target(options).client) as admin:
        cluster = admin.describe_cluster()
        topics = admin.describe_topics()
        disks = admin.describe_log_dirs()
    wrong = find_wrong(cluster, topics, disks)
    if as_json or wrong:
        show(wrong, ("what", "where", "why"), as_json)
    if not wrong:
        partitions = sum(len(topic.partitions) for topic in topics.done.values())
        print_line(
            f"all is well: {counted(len(cluster.brokers), 'broker')}, "
            f"{counted(len(topics), 'topic')}, {counted(partitions, 'partition')} "
            "with a leader and all replicas in sync",
            as_json,
        )
    if wrong:
        raise click.exceptions.Exit(1)


def find_wrong(
    cluster: ClusterDescription,
    topics: Results[str, TopicDescription],
    disks: Results[int, tuple[LogDir, ...]],
) -> list[dict[str, Any]]:
    """What is not as it should be in a cluster: rows of what, where and why. Pure."""
    rows: list[tuple[str, str, str]] = []
    if cluster.controller not in {broker.id for broker in cluster.brokers}:
        rows.append(("controller", "-", "no broker is the controller"))
    rows += [
        ("broker", f"{broker.id} {broker.address}", "it is fenced")
        for broker in cluster.brokers
        if broker.fenced
    ]
    rows += [("topic", name, str(error)) for name, error in topics.errors.items()]
    for topic in topics.done.values():
        for part in topic.partitions:
            where = f"{topic.name}-{part.partition}"
            if part.leader < 0:
                rows.append(("partition", where, "it has no leader"))
            elif part.under_replicated:
                away = sorted(set(part.replicas) - set(part.isr))
                rows.append(("partition", where, f"not in sync: {', '.join(map(str, away))}"))
            elif part.offline:
                rows.append(("partition", where, f"offline on {', '.join(map(str, part.offline))}"))
    rows += [("broker", str(node), str(error)) for node, error in disks.errors.items()]
    for node, folders in disks.done.items():
        for folder in folders:
            where = f"{folder.path} of broker {node}"
            if folder.error is not None:
                rows.append(("disk", where, str(folder.error)))
            elif 0 <= folder.usable_bytes < folder.total_bytes * LEAST_FREE:
                free = f"{folder.usable_bytes / (1 << 30):.1f} GiB"
                rows.append(("disk", where, f"only {free} are free"))
    return [{"what": what, "where": where, "why": why} for what, where, why in rows]


def _print_brokers(api_versions: bool, as_json: bool, options: dict[str, Any]) -> None:
    with Admin(**take_target(options).client) as admin:
        if api_versions:
            served = admin.api_versions()
            rows: list[dict[str, Any]] = [
                {"broker": broker, "api": name, "lowest": low, "highest": high}
                for broker, spans in served.done.items()
                for name, (low, high) in spans.items()
            ]
            show(rows, ("broker", "api", "lowest", "highest"), as_json)
            end(len(served), served.errors)
            return
        cluster = admin.describe_cluster()
    if not as_json:
        named = f"cluster {cluster.cluster_id or 'without id'}"
        print_line(f"{named}\t{counted(len(cluster.brokers), 'broker')}")
    rows = [
        {
            "cluster": cluster.cluster_id,
            "broker": broker.id,
            "address": broker.address,
            "rack": broker.rack,
            "controller": broker.id == cluster.controller,
            "fenced": broker.fenced,
        }
        for broker in cluster.brokers
    ]
    show(rows, ("broker", "address", "rack", "controller", "fenced"), as_json)
