"""``tallymark export``: a topic's records in a file."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click

from tallymark.cli.messages.reading.options import range_options, take_range
from tallymark.cli.messages.transfer.exporting import Export
from tallymark.cli.messages.transfer.open_file import format_of
from tallymark.client.reading.simple_consumer import SimpleConsumer
from tallymark.errors import UserError
from tallymark.processes.process import stop_signals
from tallymark.protocol.records.compiled.loose_columns import use_compiled_loops
from tallymark.shell.positions import BEGINNING, END
from tallymark.shell.progress import progress
from tallymark.shell.target import cluster_options, take_target

_MANY_RECORDS = 1_000_000
"""For fewer, loading the compiled loops takes longer than it saves."""
_FORMAT = "JSON lines with base64, or an Avro container [by the file's name: .avro]."


@click.command("export")
@click.argument("topic")
@click.argument("file", type=click.Path(dir_okay=False, path_type=Path))
@click.option("--format", "form", type=click.Choice(["jsonl", "avro"]), help=_FORMAT)
@click.option("--resume", is_flag=True, help="Go on with an export that did not end.")
@range_options
@click.option("--json", "as_json", is_flag=True, help="Print the counts as JSON.")
@cluster_options
def command(**options: Any) -> None:
    """Write the records of TOPIC to FILE: keys, values, headers, timestamps and offsets, exactly.

    From the beginning to the end of the log at the start, unless the options say otherwise. The
    file gets its name when it is complete; until then --resume continues with FILE.partial.
    'tallymark import' writes it into a topic. Formats: docs/clients.md.

    Exits with 0 when the file is whole, 130 after Ctrl-C, 1 when it failed.
    """
    topic, as_json = options["topic"], options["as_json"]
    if str(options["file"]) == "-":
        raise UserError("an export is a file, not standard output", "name a file")
    asked = take_range(options, start=BEGINNING, end=END)
    export = Export(options["file"], format_of(options["file"], options["form"]))
    with (
        stop_signals() as stop,
        SimpleConsumer(
            **take_target(options).client, client_id="tallymark-export", isolation=asked.isolation
        ) as consumer,
    ):
        if options["resume"]:
            writer, spans = export.resume(consumer, topic)
        else:
            spans = asked.spans(consumer, [topic])
            writer = export.begin(consumer, topic, spans)
        left = sum(span.left for span in spans)
        if left >= _MANY_RECORDS:
            use_compiled_loops()
        with progress(topic, left) as meter:
            done = export.run(consumer, writer, spans, stop, meter)
    if not done:
        raise UserError("stopped before the end", "go on with --resume", exit_code=130)
    _report(topic, export, as_json)


def _report(topic: str, export: Export, as_json: bool) -> None:
    records, size = sum(export.totals.counts.values()), export.path.stat().st_size
    if as_json:
        document = {
            "topic": topic,
            "file": str(export.path),
            "bytes": size,
            "records": records,
            "partitions": {str(number): count for number, count in export.totals.counts.items()},
        }
        click.echo(json.dumps(document))
    else:
        click.echo(f"{records} records of {topic} in {export.path}, {size:,} bytes")
