"""``tallymark perf``: how fast a cluster takes and returns messages, in the figures of Kafka's
tools."""

from __future__ import annotations

import json
import os
import time
from collections import deque
from functools import partial
from pathlib import Path
from typing import Any, Final

import click

from tallymark.cli.messages.perf_figures import Figures
from tallymark.cli.messages.reading.options import range_options, take_range
from tallymark.cli.messages.reading.reader import Stopped, read_pieces
from tallymark.cli.messages.reading.spans import Span
from tallymark.cli.messages.writing.ending import close_producer
from tallymark.cli.messages.writing.options import producer_options, rate_option, take_producer
from tallymark.cli.messages.writing.pace import Rate
from tallymark.cli.messages.writing.tally import Tally
from tallymark.client.producing.delivery import Delivery, RecordMetadata
from tallymark.client.producing.producer import Producer
from tallymark.client.reading.simple_consumer import SimpleConsumer
from tallymark.errors import UserError
from tallymark.processes.process import stop_signals
from tallymark.publishing.reading.rows import Stop
from tallymark.shell.lazy_group import NamedGroup
from tallymark.shell.named import one_named
from tallymark.shell.positions import BEGINNING, END
from tallymark.shell.progress import Meter, progress
from tallymark.shell.target import cluster_options, take_target

_PAYLOADS: Final = 1000
"""Different random payloads: enough that compression does not see repetitions nearby."""
_PAYLOAD_FILE = "Send the lines of this file, again and again."
_SAMPLED: Final = 16
_AHEAD_S: Final = 0.001


@click.group("perf", cls=NamedGroup)
def command() -> None:
    """Measure how fast a cluster takes and returns messages."""


@command.command("produce")
@one_named("topic", "topic")
@click.option("-n", "--num-records", type=click.IntRange(min=1), default=100_000, show_default=True)
@click.option("--record-size", type=click.IntRange(min=0), default=200, show_default=True)
@click.option("--payload-file", type=click.Path(dir_okay=False, path_type=Path), help=_PAYLOAD_FILE)
@rate_option
@producer_options
@click.option("--stamp/--no-stamp", default=True, help="Stamp and audit the messages [stamp].")
@click.option("--json", "as_json", is_flag=True, help="Print the figures as JSON.")
@cluster_options
def produce(**options: Any) -> None:
    """Send messages to TOPIC as fast as possible, or at --rate, and print rates and latencies.

    A message's latency is from send() to its acknowledgement. Exits with 0 when every message is
    acknowledged, 1 when one is not.
    """
    figures, tally = Figures(), Tally()
    settings: dict[str, Any] = {**take_target(options).client, **take_producer(options)}
    if not options["stamp"]:
        settings |= {"audit": False}
    payloads = _payloads(options["payload_file"], options["record_size"])
    with stop_signals() as stop:
        producer = Producer(**settings, client_id="tallymark-perf")
        started = time.perf_counter()
        run = _Sending(producer, options["topic"], payloads, figures, tally)
        try:
            with progress(options["topic"], options["num_records"]) as meter:
                run.send_all(options["num_records"], options["rate"], stop, meter)
            producer.flush()
            figures.seconds = time.perf_counter() - started
        finally:
            close_producer(producer, stop)
            run.collect()
    _print(figures, "sent", options["as_json"])
    tally.check()


class _Sending:
    """Sends and times. A callback costs as much as sending: without a rate only every 16th message
    has one, and its latency is taken for the others'."""

    def __init__(
        self, producer: Producer, topic: str, payloads: list[bytes], figures: Figures, tally: Tally
    ) -> None:
        self._producer = producer
        self._topic = topic
        self._payloads = payloads
        self._figures = figures
        self._tally = tally
        self._pending: deque[tuple[Delivery, int]] = deque()

    def send_all(self, count: int, per_second: float, stop: Stop, meter: Meter) -> None:
        """``count`` messages, unless it is to stop."""
        payloads, send, topic = self._payloads, self._producer.send, self._topic
        rate = Rate(per_second, time.perf_counter())
        every = 1 if per_second else _SAMPLED
        for number in range(count):
            if per_second:
                wait = rate.due(number, time.perf_counter())
                if wait > _AHEAD_S and stop.wait(wait):
                    return
            payload = payloads[number % len(payloads)]
            if number % every:
                delivery = send(topic, payload)
            else:
                note = partial(self._note, time.perf_counter())
                delivery = send(topic, payload, on_delivery=note)
            self._pending.append((delivery, len(payload)))
            self._tally.sent += 1
            if number % 256 == 0:
                self.collect()
                meter.tick(lambda: (self._tally.acknowledged, self._tally.text()))
                if stop.is_set():
                    return

    def collect(self) -> None:
        """Count finished deliveries."""
        pending = self._pending
        while pending and pending[0][0].done():
            delivery, size = pending.popleft()
            error = delivery.exception()
            if error is None:
                self._figures.records += 1
                self._figures.size += size
            self._tally.note(error if isinstance(error, Exception) else None, None)

    def _note(self, sent_at: float, error: Exception | None, _: RecordMetadata | None) -> None:
        if error is None:
            self._figures.latencies_ms.append((time.perf_counter() - sent_at) * 1000)


@command.command("consume")
@one_named("topic", "topic")
@click.option("--messages", type=click.IntRange(min=1), help="End after so many.")
@range_options
@click.option("--json", "as_json", is_flag=True, help="Print the figures as JSON.")
@cluster_options
def consume(**options: Any) -> None:
    """Read the messages of TOPIC and print the rates.

    From the beginning to the end of the log at the start, unless the options say otherwise. Every
    record is decoded. Exits with 0; 1 when reading failed.
    """
    asked = take_range(options, start=BEGINNING, end=END)
    figures = Figures()
    with (
        stop_signals() as stop,
        SimpleConsumer(
            **take_target(options).client, client_id="tallymark-perf", isolation=asked.isolation
        ) as consumer,
    ):
        spans = asked.spans(consumer, [options["topic"]])
        started = time.perf_counter()
        with progress(options["topic"], sum(span.left for span in spans)) as meter:
            _read_all(consumer, spans, options["messages"], figures, stop, meter)
        figures.seconds = time.perf_counter() - started
    _print(figures, "read", options["as_json"])


def _read_all(
    consumer: SimpleConsumer,
    spans: list[Span],
    limit: int | None,
    figures: Figures,
    stop: Stopped,
    meter: Meter,
) -> None:
    for piece in read_pieces(consumer, spans, stop):
        if piece is None:
            continue
        records = piece.records
        if limit is not None:
            records = records[: limit - figures.records]
        figures.records += len(records)
        figures.size += sum(len(key or b"") + len(value or b"") for _, _, key, value, _ in records)
        meter.tick(lambda: (figures.records, f"{figures.records:,} messages"))
        if figures.records == limit:
            return


def _payloads(path: Path | None, size: int) -> list[bytes]:
    if path is None:
        return [os.urandom(size) for _ in range(_PAYLOADS)] if size else [b""]
    try:
        lines = path.read_bytes().splitlines()
    except OSError as error:
        raise UserError(f"cannot read {path}: {error.strerror}", "name a file of lines") from error
    if not lines:
        raise UserError(f"{path} has no lines", "name a file of lines")
    return lines


def _print(figures: Figures, verb: str, as_json: bool) -> None:
    click.echo(json.dumps(figures.document()) if as_json else figures.text(verb))
