"""``tallymark import``: the records of an exported file into a topic."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click

from tallymark.cli.messages.reading.reader import Stopped
from tallymark.cli.messages.transfer.import_state import ImportState
from tallymark.cli.messages.transfer.importing import Import
from tallymark.cli.messages.transfer.open_file import reading, verified
from tallymark.cli.messages.transfer.plan import ExportReader
from tallymark.cli.messages.writing.options import producer_options, take_producer
from tallymark.cli.messages.writing.target_topic import ensure_topic
from tallymark.client.core.security.deployment import ConnectionSettings
from tallymark.client.producing.producer import Producer
from tallymark.errors import TallymarkError, UserError
from tallymark.processes.process import stop_signals
from tallymark.shell.counted import counted
from tallymark.shell.progress import progress
from tallymark.shell.target import cluster_options, take_target

_BY_KEY = "Choose partitions by key, as for new messages [default: those of the file]."
_STAMP = "Send as new messages, with stamps of this run [default: each keeps its stamp]."


@click.command("import")
@click.argument("file", type=click.Path(dir_okay=False, path_type=Path))
@click.argument("topic", required=False)
@click.option("--by-key", is_flag=True, help=_BY_KEY)
@click.option("--stamp", is_flag=True, help=_STAMP)
@click.option("--resume", is_flag=True, help="Go on with an import that did not end.")
@producer_options
@click.option("--json", "as_json", is_flag=True, help="Print the counts as JSON.")
@cluster_options
def command(**options: Any) -> None:
    """Send the records of an exported FILE to TOPIC [default: the name it had].

    Keys, values, headers and timestamps are kept, and the order within each partition; offsets are
    the new topic's. The topic is created, with as many partitions, when it is not there. Nothing
    is sent of a file whose counts or checksums do not agree with its records.

    Exits with 0 when every record is acknowledged, 130 after Ctrl-C, 1 when it failed.
    """
    with stop_signals() as stop, reading(options["file"]) as reader:
        if reader.totals is None:
            raise UserError(f"the export {options['file']} did not end", "end it with --resume")
        if not verified(options["file"], stop):
            raise UserError("stopped before anything was sent", "start it again", 130)
        topic = options["topic"] or reader.plan.topic
        client = take_target(options).client
        topic_id = _prepare_topic(client, topic, reader, options["by_key"])
        state = ImportState(options["file"], reader.plan, topic, topic_id)
        done = _earlier(state, options["resume"])
        settings: dict[str, Any] = {
            **client,
            **take_producer(options),
            **_stamping(options["stamp"]),
        }
        with Producer(**settings, client_id="tallymark-import") as producer:
            run = Import(producer, topic, done, state, not options["by_key"])
            _run(run, producer, reader, stop)
    counts = reader.totals.counts
    total = sum(counts.values())
    if options["as_json"]:
        by_partition = {str(number): count for number, count in counts.items()}
        click.echo(json.dumps({"topic": topic, "records": total, "partitions": by_partition}))
    else:
        click.echo(f"{total} records of {options['file']} acknowledged in {topic}")


def _run(run: Import, producer: Producer, reader: ExportReader, stop: Stopped) -> None:
    counts = reader.totals.counts if reader.totals else {}
    try:
        with progress(reader.plan.topic, sum(counts.values())) as meter:
            ended = run.send_all(reader.records(), stop, meter)
        producer.flush()
        run.settle()
    except TallymarkError as error:
        raise UserError(
            f"{run.done.total()} records are there, then: {error}", "--resume"
        ) from error
    if not ended:
        raise UserError(
            f"stopped after {run.done.total()} records", "go on with --resume", exit_code=130
        )
    run.check(counts)


def _earlier(state: ImportState, resume: bool) -> dict[int, int]:
    if resume:
        return state.load()
    if state.path.exists():
        raise UserError(
            "an earlier import of this file did not end",
            f"go on with --resume, or remove {state.path}",
        )
    return {}


def _stamping(anew: bool) -> dict[str, Any]:
    """Kept stamps are the original messages' identity; new ones say that times are old."""
    return {"backfill": True} if anew else {"audit": False}


def _prepare_topic(
    client: ConnectionSettings, topic: str, reader: ExportReader, by_key: bool
) -> str:
    """Create the topic if it is missing; its id."""
    needed = 1 + max(reader.plan.partitions, default=0)
    info = ensure_topic(client, topic, needed)
    if info.partition_count < needed and not by_key:
        raise UserError(
            f"{topic} has {counted(info.partition_count, 'partition')}, the file {needed}",
            "give --by-key, or name another topic",
        )
    return str(info.topic_id)
