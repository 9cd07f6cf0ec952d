"""Where an import or export reads from: a file, a registry, a registry's topic."""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final

import click

from tallymark.client.core.security.security import SecuritySettings
from tallymark.client.reading.simple_consumer import SimpleConsumer
from tallymark.shell.command_config import read_command_config
from tallymark.shell.progress import progress
from tallymark_schema_registry.cli.connection import Access, exit_codes, requests
from tallymark_schema_registry.transfer.reading import read_registry
from tallymark_schema_registry.transfer.remote import RemoteRegistry
from tallymark_schema_registry.transfer.schema_file import read_file
from tallymark_schema_registry.transfer.snapshot import Replay, Snapshot
from tallymark_schema_registry.transfer.topic import read_topic

_WHOLE: Final = "the file has no last line that proves it whole (another program wrote it)"


def read_source(
    file: str | None, source: Access | None, topic: str | None, command_config: str | None
) -> tuple[Snapshot, Replay]:
    """What is in the one of the three that is given; and what was odd about its records. Raises
    UserError and UsageError."""
    if [file, source, topic].count(None) != 2:
        raise click.UsageError("Give one of FILE, --from-registry and --from-topic.")
    if source is not None:
        return read_running(source), Replay(proven=True)
    replay = _read_topic(topic, command_config) if topic else _read_file(file or "-")
    return replay.snapshot(), replay


def read_running(access: Access) -> Snapshot:
    """What a registry holds."""
    with exit_codes(), RemoteRegistry(requests(access)) as registry:
        return watched(registry)


def watched(registry: RemoteRegistry) -> Snapshot:
    """What a registry holds; shows how far it is read."""
    with progress("reading", None) as meter:
        return read_registry(registry, lambda text: meter.tick(lambda: (0, text)))


def _read_file(file: str) -> Replay:
    if file == "-":
        return read_file(sys.stdin.buffer, "standard input")
    with open(Path(file), "rb") as opened:
        return read_file(opened, file)


def _read_topic(place: str, command_config: str | None) -> Replay:
    bootstrap, slash, topic = place.rpartition("/")
    if not slash or not bootstrap or not topic:
        raise click.UsageError(f"{place!r} is not HOST:PORT/TOPIC.")
    security = read_command_config(command_config) if command_config else SecuritySettings()
    with exit_codes(), ExitStack() as stack:
        consumer = stack.enter_context(
            SimpleConsumer(
                bootstrap_servers=bootstrap,
                client_id="tallymark-schema",
                isolation="read_committed",
                **security,
            )
        )
        meter = stack.enter_context(progress(topic, None))
        return read_topic(consumer, topic, lambda text: meter.tick(lambda: (0, text)))


def tell_odd(replay: Replay, tell: Callable[[str], object]) -> None:
    """Say what of the records was not understood."""
    if not replay.proven and replay.records:
        tell(_WHOLE)
    for kind, count in sorted(replay.unknown.items()):
        tell(f"{count} records of the kind {kind[:80]} were passed over")
    if replay.unreadable_count:
        tell(f"{replay.unreadable_count} records are none of a registry:")
    for line in [*replay.unreadable, *replay.lost]:
        tell(f"  {line}")


def odd_document(replay: Replay) -> dict[str, Any]:
    """The same for ``--json``."""
    return {
        "proven": replay.proven,
        "unknown": dict(sorted(replay.unknown.items())),
        "unreadable": replay.unreadable_count,
        "lost": replay.lost,
    }
