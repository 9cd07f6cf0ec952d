"""``tallymark schema export`` and ``import``."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from threading import Event
from typing import Any, Final

import click

from tallymark.errors import UserError
from tallymark.processes.process import stop_signals
from tallymark.shell.output import json_result, print_line
from tallymark.shell.progress import progress
from tallymark.untrusted import escaped_json
from tallymark_schema_registry.cli.connection import (
    exit_codes,
    registry_options,
    requests,
    source_options,
    take_access,
    take_source,
)
from tallymark_schema_registry.cli.sources import (
    odd_document,
    read_running,
    read_source,
    tell_odd,
    watched,
)
from tallymark_schema_registry.transfer.importing import Done, ImportRun
from tallymark_schema_registry.transfer.plan import Plan, plan, wrong_after
from tallymark_schema_registry.transfer.remote import RemoteRegistry
from tallymark_schema_registry.transfer.schema_file import save_snapshot, write_snapshot
from tallymark_schema_registry.transfer.snapshot import Replay, Snapshot

_TOPIC: Final = "Read a registry's topic: HOST:PORT,.../_schemas."
_CONFIG: Final = "Security settings of the topic's cluster (Kafka's client.properties)."
_MODE: Final = "The default context's mode afterwards [default: as in the source]."
_DRY_RUN: Final = "Only show what would be done."
_STOPPED: Final = 130
_MOST_TOLD: Final = 20


@click.command("export")
@click.argument("file", type=click.Path(dir_okay=False, allow_dash=True))
@click.option("--from-topic", metavar="HOST:PORT/TOPIC", help=_TOPIC)
@click.option("--command-config", type=click.Path(dir_okay=False), help=_CONFIG)
@json_result
@registry_options
def export(**options: Any) -> None:
    """Write all that a registry holds to FILE (- for standard output): subjects, versions, ids,
    softly deleted ones, levels, modes, contexts.

    One record of the topic _schemas a line. Registries that hold the same have the same export,
    byte for byte. The file gets its name when it is whole.
    """
    file, topic = options["file"], options["from_topic"]
    access, replay = take_access(options), Replay(proven=True)
    if topic:
        snapshot, replay = read_source(None, None, topic, options["command_config"])
    else:
        snapshot = read_running(access)
    if file == "-":
        records = write_snapshot(snapshot, sys.stdout.buffer)
        sys.stdout.buffer.flush()
    else:
        records = save_snapshot(snapshot, Path(file))
    counts = _counts(snapshot)
    if options["as_json"]:
        document = {"file": file, "records": records, **counts, **odd_document(replay)}
        click.echo(escaped_json(json.dumps(document, ensure_ascii=False)), err=file == "-")
    else:
        _tell(f"{_counted(counts)} in {file}", to_error=file == "-")
        tell_odd(replay, lambda line: _tell(line, to_error=True))
    if replay.lost:
        raise click.exceptions.Exit(1)


@click.command("import")
@click.argument("file", type=click.Path(dir_okay=False, allow_dash=True), required=False)
@click.option("--from-topic", metavar="HOST:PORT/TOPIC", help=_TOPIC)
@click.option("--command-config", type=click.Path(dir_okay=False), help=_CONFIG)
@source_options
@click.option("--mode", "final_mode", metavar="MODE", help=_MODE)
@click.option("--dry-run", is_flag=True, help=_DRY_RUN)
@json_result
@registry_options
def import_(**options: Any) -> None:
    """Bring all schemas of FILE (- for standard input), of another registry, or of a topic into a
    registry. Ids and versions stay what they are.

    The registry is empty, or has nothing that contradicts: conflicts are listed, and nothing is
    changed then. It is in the mode IMPORT meanwhile. What was imported is read back and compared.
    An import can be repeated, and one that was stopped or killed goes on when it is started again.

    Exits with 0 when all of it is there, 1 when not, 130 after Ctrl-C.
    """
    source = take_source(options)
    access = take_access(options)
    with stop_signals() as stop:
        wanted, replay = read_source(
            options["file"], source, options["from_topic"], options["command_config"]
        )
        if options["final_mode"]:
            wanted.modes[""] = options["final_mode"].upper()
        with exit_codes(), RemoteRegistry(requests(access)) as registry:
            report = _import(registry, wanted, stop, dry_run=options["dry_run"])
    report |= _counts(wanted) | odd_document(replay)
    if options["as_json"]:
        click.echo(escaped_json(json.dumps(report, ensure_ascii=False)))
    else:
        tell_odd(replay, _tell)
        _tell_report(report)
    if report.get("stopped"):
        raise UserError("stopped before the end", "start it again, it goes on", _STOPPED)
    if report["conflicts"] or report["failed"] or report["wrong"] or replay.lost:
        raise click.exceptions.Exit(1)


def _import(
    registry: RemoteRegistry, wanted: Snapshot, stop: Event, *, dry_run: bool
) -> dict[str, Any]:
    """The report of one run."""
    target = watched(registry)
    todo = plan(wanted, target)
    report: dict[str, Any] = {
        "there": todo.same,
        "extra": len(todo.extra),
        "conflicts": [
            {"where": one.where, "what": one.what, "difference": one.difference}
            for one in todo.conflicts
        ],
        "failed": [],
        "wrong": [],
        "verified": False,
    }
    if dry_run or todo.conflicts:
        return report | {"done": "nothing", **_planned(todo)}
    done = _run(registry, todo, target, stop)
    report |= {"done": "imported", **_result(done), "failed": done.failed}
    if not done.stopped:
        after = target if todo.empty else watched(registry)
        report["wrong"] = list(wrong_after(wanted, after))
        report["verified"] = not report["wrong"] and not done.failed
    return report


def _run(registry: RemoteRegistry, todo: Plan, target: Snapshot, stop: Event) -> Done:
    if todo.empty:
        return Done()
    with progress("import", total := len(todo.register) + todo.deletions()) as meter:

        def tick(done: Done) -> None:
            count = done.registered + done.deleted
            meter.tick(lambda: (count, f"{count} of {total} versions"))

        return ImportRun(registry, todo, target, stop, tick).run()


def _planned(todo: Plan) -> dict[str, Any]:
    return {
        "registered": len(todo.register),
        "deleted": todo.deletions(),
        "configs": len(todo.configs),
        "modes": len(todo.modes),
    }


def _result(done: Done) -> dict[str, Any]:
    return {
        "registered": done.registered,
        "deleted": done.deleted,
        "configs": done.configs,
        "modes": done.modes,
        "stopped": done.stopped,
    }


def _tell_report(report: dict[str, Any]) -> None:
    would = "" if report["done"] == "imported" else "to be "
    _tell(
        f"{_counted(report)} in the source: {report['there']} were there, {would}registered "
        f"{report['registered']}, {would}deleted {report['deleted']}; {would}set "
        f"{report['configs']} levels, {report['modes']} modes"
    )
    if report["extra"]:
        _tell(f"{report['extra']} versions are only in the target, and stay")
    for conflict in report["conflicts"]:
        _tell(f"conflict: {conflict['where']}: {conflict['what']}")
        for line in conflict["difference"].splitlines():
            _tell(f"    {line}")
    if report["conflicts"]:
        _tell("nothing was changed")
    for kind in ("failed", "wrong"):
        for line in report[kind][:_MOST_TOLD]:
            _tell(f"{kind}: {line}")
        if len(report[kind]) > _MOST_TOLD:
            _tell(f"{kind}: {len(report[kind]) - _MOST_TOLD} more")
    if report["verified"]:
        _tell("verified: all of it is there, with the same ids, numbers and schemas")


def _counts(snapshot: Snapshot) -> dict[str, int]:
    return {
        "subjects": len(snapshot.subjects()),
        "versions": len(snapshot.versions),
        "softly_deleted": sum(one.deleted for one in snapshot.versions.values()),
        "schemas": len(snapshot.contents()),
        "contexts": len({one.context for one in snapshot.versions.values()}),
    }


def _counted(counts: dict[str, Any]) -> str:
    return (
        f"{counts['versions']} versions ({counts['softly_deleted']} softly deleted) of "
        f"{counts['subjects']} subjects in {counts['contexts']} contexts"
    )


def _tell(line: str, *, to_error: bool = False) -> None:
    print_line(line, to_error)
