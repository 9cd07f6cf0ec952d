"""``tallymark log-dirs``: what the disks of brokers hold."""

from __future__ import annotations

from typing import Any

import click

from tallymark.client.admin.admin import Admin
from tallymark.client.admin.cluster import LogDir
from tallymark.errors import TallymarkError
from tallymark.shell.absent import absent, explained
from tallymark.shell.output import end, json_option, show
from tallymark.shell.target import cluster_options, take_target

_DIRS = ("broker", "path", "partitions", "bytes", "disk bytes", "free bytes", "error")
_PARTITIONS = ("broker", "path", "topic", "partition", "bytes", "lag", "future")


@click.command("log-dirs")
@click.option("--broker", "brokers", type=int, multiple=True, help="Only these brokers.")
@click.option("-t", "--topic", "topics", multiple=True, metavar="NAME", help="Partitions of these.")
@click.option("--partitions", is_flag=True, help="A row for each partition.")
@json_option
@cluster_options
def command(
    brokers: tuple[int, ...],
    topics: tuple[str, ...],
    partitions: bool,
    as_json: bool,
    **options: Any,
) -> None:
    """Print the log directories of brokers: partitions, bytes, and what is free on the disk."""
    with Admin(**take_target(options).client) as admin:
        found = admin.describe_log_dirs(brokers or None)
        there = admin.topics() if topics else {}
    rows: list[dict[str, Any]] = []
    broken: list[TallymarkError] = []
    for broker, folders in found.done.items():
        broken += [folder.error for folder in folders if folder.error is not None]
        for folder in folders:
            rows += (
                _replicas(broker, folder, topics)
                if partitions or topics
                else [_row(broker, folder)]
            )
    show(rows, _PARTITIONS if partitions or topics else _DIRS, as_json)
    missing = [absent("topic", name) for name in topics if name not in there]
    failed = [explained("broker", broker, error) for broker, error in found.errors.items()]
    end(len(rows) if missing else len(found), [*missing, *failed, *broken])


def _row(broker: int, folder: LogDir) -> dict[str, Any]:
    return {
        "broker": broker,
        "path": folder.path,
        "partitions": len(folder.replicas),
        "bytes": folder.size,
        "disk bytes": folder.total_bytes if folder.total_bytes >= 0 else None,
        "free bytes": folder.usable_bytes if folder.usable_bytes >= 0 else None,
        "error": folder.error.name if folder.error else None,
    }


def _replicas(broker: int, folder: LogDir, topics: tuple[str, ...]) -> list[dict[str, Any]]:
    return [
        {
            "broker": broker,
            "path": folder.path,
            "topic": one.topic,
            "partition": one.partition,
            "bytes": one.size,
            "lag": one.lag,
            "future": one.future,
        }
        for one in folder.replicas
        if not topics or one.topic in topics
    ]
