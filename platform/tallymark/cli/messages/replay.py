"""``tallymark replay``: send a topic's messages again, at their original pace."""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import click

from tallymark.cli.messages.reading.merging import Placed, read_merged
from tallymark.cli.messages.reading.options import range_options, take_range
from tallymark.cli.messages.reading.spans import Span
from tallymark.cli.messages.writing.ending import close_producer
from tallymark.cli.messages.writing.options import producer_options, take_producer
from tallymark.cli.messages.writing.pace import Pace
from tallymark.cli.messages.writing.tally import Tally
from tallymark.cli.messages.writing.target_topic import ensure_topic
from tallymark.client.producing.producer import Producer
from tallymark.client.reading.simple_consumer import SimpleConsumer
from tallymark.errors import TallymarkError, UserError
from tallymark.processes.process import stop_signals
from tallymark.publishing.reading.rows import Stop
from tallymark.shell.counted import counted
from tallymark.shell.positions import BEGINNING, END
from tallymark.shell.progress import Meter, progress
from tallymark.shell.target import Target, cluster_options, take_target

_SPEED = "1: as they came; 10: ten times as fast; 0: as fast as it goes."
_TIMES = "Keep the messages' times, and say that they are old [default: they are of now]."
_TO_SERVER = "Brokers of the cluster to write to [default: the one that is read]."
_TO_CLUSTER = "A cluster of the settings to write to."
_TO_CONFIG = "Security settings of the cluster to write to."
_NAP_S = 0.25


@click.command("replay")
@click.argument("topic")
@click.argument("target")
@range_options
@click.option("--follow", is_flag=True, help="Continue with new messages, until Ctrl-C.")
@click.option("--speed", type=click.FloatRange(min=0), default=1.0, show_default=True, help=_SPEED)
@click.option("--keep-timestamps", is_flag=True, help=_TIMES)
@click.option("--keep-partitions", is_flag=True, help="Send each to the partition it was in.")
@click.option("--to-bootstrap-server", metavar="HOST:PORT,...", help=_TO_SERVER)
@click.option("--to-cluster", metavar="NAME", help=_TO_CLUSTER)
@click.option("--to-command-config", type=click.Path(dir_okay=False), help=_TO_CONFIG)
@producer_options
@click.option("--json", "as_json", is_flag=True, help="Print the counts as JSON.")
@cluster_options
def command(**options: Any) -> None:
    """Read TOPIC and send its messages to the topic TARGET, of this cluster or another one.

    They are new messages: with stamps of this run, partitions by key, times of now. Messages of
    several partitions go in the order of their times. From the beginning to the end of the log at
    the start, unless the options say otherwise.

    Exits with 0 when every message is acknowledged, also after Ctrl-C; 1 when one is not.
    """
    tally, target, as_json = Tally(), options["target"], options["as_json"]
    ended = False
    try:
        with stop_signals() as stop:
            _run(options, tally, stop)
        ended = True
    finally:
        if ended or tally.sent:  # what fails before the first message has nothing to count
            _print_counts(tally, target, as_json)
    tally.check()


def _print_counts(tally: Tally, target: str, as_json: bool) -> None:
    if as_json:
        counts = {"sent": tally.sent, "acknowledged": tally.acknowledged}
        click.echo(json.dumps({"topic": target, **counts, "failed": tally.failed}))
    else:
        click.echo(f"{tally.acknowledged} messages delivered to {target}", err=True)


@dataclass(frozen=True, slots=True)
class _Manner:
    """How each message is sent."""

    topic: str
    speed: float
    keep_timestamps: bool
    keep_partitions: bool


def _run(options: dict[str, Any], tally: Tally, stop: Stop) -> None:
    topic, target = options["topic"], options["target"]
    asked = take_range(options, start=BEGINNING, end=None if options["follow"] else END)
    source, sink = take_clusters(options)
    if topic == target and source.client == sink.client:
        raise UserError(
            f"{topic} would be sent to itself", "name another topic, or another cluster with --to-…"
        )
    manner = _Manner(
        target, options["speed"], options["keep_timestamps"], options["keep_partitions"]
    )
    settings: dict[str, Any] = {
        **sink.client,
        **take_producer(options),
        "backfill": manner.keep_timestamps,
    }
    with SimpleConsumer(
        **source.client, client_id="tallymark-replay", isolation=asked.isolation
    ) as consumer:
        spans = asked.spans(consumer, [topic])
        if manner.keep_partitions:
            has = ensure_topic(sink.client, target, needed := _partitions(spans)).partition_count
            if has < needed:
                raise UserError(
                    f"{target} has {counted(has, 'partition')}, {topic} {needed}",
                    "leave out --keep-partitions, or grow it with 'tallymark topics grow'",
                )
        producer = Producer(**settings, client_id="tallymark-replay")
        try:
            total = sum(span.left for span in spans)
            with progress(topic, total or None) as meter:
                _send_all(read_merged(consumer, spans, stop), producer, manner, tally, stop, meter)
        finally:
            close_producer(producer, stop)


def _partitions(spans: Iterable[Span]) -> int:
    """How many partitions a topic needs to take those of ``spans`` by their numbers."""
    return 1 + max((span.partition for span in spans), default=0)


def take_clusters(options: dict[str, Any]) -> tuple[Target, Target]:
    """Where to read and where to write: the same cluster unless ``--to-...`` names another one."""
    names = {
        "bootstrap": options.pop("to_bootstrap_server"),
        "cluster": options.pop("to_cluster"),
        "command_config": options.pop("to_command_config"),
    }
    settings = options["settings"] if names["cluster"] else None
    source = take_target(options)
    if not any(names.values()):
        return source, source
    return source, take_target({**names, "settings": settings})


def _send_all(
    messages: Iterator[Placed | None],
    producer: Producer,
    manner: _Manner,
    tally: Tally,
    stop: Stop,
    meter: Meter,
) -> None:
    pace = Pace(manner.speed)
    for message in messages:
        if message is not None:
            while wait := pace.due(message.record.timestamp, time.monotonic()):
                meter.tick(lambda: (tally.sent, tally.text()))
                if stop.wait(min(wait, _NAP_S)):
                    return
            _send(producer, manner, message.span, message, tally)
        if stop.is_set():
            return
        meter.tick(lambda: (tally.sent, tally.text()))


def _send(producer: Producer, manner: _Manner, span: Span, message: Placed, tally: Tally) -> None:
    record = message.record
    try:
        producer.send(
            manner.topic,
            record.value,
            key=record.key,
            partition=span.partition if manner.keep_partitions else None,
            timestamp=max(0, record.timestamp) if manner.keep_timestamps else None,
            headers=record.headers,
            on_delivery=tally.note,
        )
    except TallymarkError as error:
        where = f"{span.topic}-{span.partition} at offset {record.offset}"
        raise UserError(f"{where} was not taken, those before it were: {error}") from error
    tally.sent += 1
