"""``tallymark produce``: lines as messages, one each."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import click

from tallymark.cli.messages.writing.ending import close_producer
from tallymark.cli.messages.writing.line_messages import (
    LineFormat,
    LineMessage,
    byte_lines,
    from_json,
)
from tallymark.cli.messages.writing.options import producer_options, rate_option, take_producer
from tallymark.cli.messages.writing.pace import Rate
from tallymark.cli.messages.writing.tally import Tally
from tallymark.client.producing.producer import Producer
from tallymark.errors import TallymarkError, UserError
from tallymark.processes.process import stop_signals
from tallymark.publishing.reading.inputs import Input, open_input
from tallymark.publishing.reading.rows import Stop
from tallymark.shell.named import one_named
from tallymark.shell.progress import Meter, progress
from tallymark.shell.target import cluster_options, take_target

_HEADERS = "Text before it is headers: name:value,name:value."
_FORMAT = "Lines of text, or of 'tallymark consume --json': key, value and headers are kept."
_NULL = "A line, or value behind its key, that is this has no value: a tombstone."


@click.command("produce")
@one_named("topic", "topic")
@click.option("--input", "path", metavar="FILE", default="-", help="A file [standard input].")
@click.option("-k", "--key", metavar="TEXT", help="The key of every message.")
@click.option("-K", "--key-separator", metavar="TEXT", help="Text before it is the key.")
@click.option(
    "-f", "--format", "form", type=click.Choice(["text", "json"]), default="text", help=_FORMAT
)
@click.option("--header-separator", metavar="TEXT", help=_HEADERS)
@click.option("--header", "fixed", multiple=True, metavar="NAME=VALUE", help="For every message.")
@click.option("--null-value", metavar="TEXT", help=_NULL)
@click.option("-p", "--partition", type=click.IntRange(min=0), help="Send all to this one.")
@rate_option
@producer_options
@click.option("--json", "as_json", is_flag=True, help="Print the counts as JSON.")
@cluster_options
def command(**options: Any) -> None:
    """Publish the lines of a file or of standard input to TOPIC, one message each.

    Never asks. At the end, and after Ctrl-C or SIGTERM, all lines read are delivered and counted.
    'tallymark publish' turns lines into Avro events; this command sends them as they are.

    Exits with 0 when every message is acknowledged, 1 when one is not.
    """
    topic, as_json = options["topic"], options["as_json"]
    tally, started = Tally(), time.monotonic()
    try:
        with stop_signals() as stop:
            _run(options, tally, stop)
    finally:
        if tally.sent:
            _report(topic, tally, time.monotonic() - started, as_json)
    tally.check()


@dataclass(frozen=True, slots=True)
class _Job:
    """What is done with every line."""

    topic: str
    parse: Callable[[bytes], LineMessage]
    key: bytes | None
    headers: tuple[tuple[str, bytes], ...]
    partition: int | None
    rate: float


def _run(options: dict[str, Any], tally: Tally, stop: Stop) -> None:
    job = _Job(
        options["topic"],
        _parser(options),
        None if options["key"] is None else options["key"].encode(),
        tuple(_pair(text) for text in options["fixed"]),
        options["partition"],
        options["rate"],
    )
    opened = open_input(options["path"], False, stop)
    try:
        producer = Producer(
            **take_target(options).client, **take_producer(options), client_id="tallymark-produce"
        )
        try:
            typed = options["path"] == "-" and sys.stdin.isatty()
            with progress(opened.name, opened.total, quiet=typed) as meter:
                _send_all(producer, job, opened, tally, meter, stop)
        finally:
            close_producer(producer, stop)
    finally:
        opened.close()


def _parser(options: dict[str, Any]) -> Callable[[bytes], LineMessage]:
    names = ("key_separator", "header_separator", "null_value")
    if options["form"] == "text":
        return LineFormat(*(_bytes(options[name]) for name in names)).parse
    for name in names:
        if options[name] is not None:
            raise UserError(
                f"--{name.replace('_', '-')} means nothing with --format json", "leave it out"
            )
    return from_json


def _send_all(
    producer: Producer, job: _Job, opened: Input, tally: Tally, meter: Meter, stop: Stop
) -> None:
    rate = Rate(job.rate, time.monotonic())
    for number, message in _messages(job, opened, stop):
        if message is not None:
            wait = rate.due(tally.sent, time.monotonic())
            if wait and stop.wait(wait):
                return
            _send(producer, job, message, number, tally)
        meter.tick(lambda: (opened.position, tally.text()))


def _messages(job: _Job, opened: Input, stop: Stop) -> Iterator[tuple[int, LineMessage | None]]:
    number = 0
    for line in byte_lines(opened.chunks(), stop.is_set):
        if line is None:
            yield number, None
            continue
        number += 1
        try:
            yield number, job.parse(line)
        except ValueError as error:
            raise UserError(f"line {number} of {opened.name}: {error}") from error


def _send(producer: Producer, job: _Job, message: LineMessage, number: int, tally: Tally) -> None:
    try:
        producer.send(
            job.topic,
            message.value,
            key=job.key if message.key is None else message.key,
            partition=job.partition,
            headers=(*message.headers, *job.headers),
            on_delivery=tally.note,
        )
    except TallymarkError as error:
        raise UserError(f"line {number} was not taken, those before it were: {error}") from error
    tally.sent += 1


def _report(topic: str, tally: Tally, seconds: float, as_json: bool) -> None:
    if as_json:
        counts = {"sent": tally.sent, "acknowledged": tally.acknowledged, "failed": tally.failed}
        click.echo(json.dumps({"topic": topic, **counts, "seconds": round(seconds, 3)}))
    else:
        click.echo(f"{tally.acknowledged} messages delivered to {topic}", err=True)


def _bytes(text: str | None) -> bytes | None:
    """An option as bytes, with \\t for a tab."""
    return text.replace("\\t", "\t").encode() if text else None


def _pair(text: str) -> tuple[str, bytes]:
    name, equals, value = text.partition("=")
    if not equals or not name:
        raise UserError(f"--header {text!r} is not NAME=VALUE", "for example source=import")
    return name, value.encode()
