"""``tallymark publish``."""

from __future__ import annotations

import json
import logging
import os
import sys
import time
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tallymark.client.core.security.http import registry_settings
from tallymark.deployment import Deployment, find_settings, load
from tallymark.deployment.load import ENVIRONMENT
from tallymark.errors import TimedOutError, UserError
from tallymark.processes.process import configure_logging, stop_signals
from tallymark.publishing import cluster as clusters
from tallymark.publishing.publisher import Counts, Publisher
from tallymark.publishing.reading.rows import Rows, StopAfter
from tallymark.publishing.reading.sources import (
    FORMATS,
    Shard,
    Source,
    metrics_source,
    open_source,
    with_event_time,
)
from tallymark.publishing.rejects import Rejects
from tallymark.publishing.schemas.choose import choose_schema, register
from tallymark.publishing.schemas.fitting import Fit, fitter
from tallymark.serialization import AvroEncoder, RegistryClient, SerializationError
from tallymark.shell.named import one_named
from tallymark.shell.output import json_result
from tallymark.shell.progress import Meter, progress
from tallymark.shell.target import cluster_options

if TYPE_CHECKING:
    from tallymark.client import Producer

_log = logging.getLogger("publish")
CLOSE_S = clusters.DELIVERY_TIMEOUT_MS / 1000 + 10
SIGNALLED_CLOSE_S = 30.0


@dataclass(frozen=True, slots=True)
class Options:
    """The command's options; what they mean is in their help."""

    topic: str
    input: str | None
    format: str
    schema: Path | None
    backfill: bool
    follow: bool
    shard: str | None
    interval: float
    max_events: int | None
    duration: float | None
    rejects: Path | None
    event_time: str | None
    partitions: int
    server: str | None
    settings: str | None
    cluster: str | None
    bootstrap: str | None = None
    command_config: str | None = None
    as_json: bool = False


_FILE = click.Path(dir_okay=False, path_type=Path)
_REJECTS = "Where rows that do not fit go [default: rejects/TOPIC.jsonl in the data folder]."
_EVENT_TIME = "The field with the event's time [default: an access log's own, else now]."
_POSITIVE = click.FloatRange(min=0.001)


@click.command("publish")
@one_named("topic", "topic")
@click.option("--input", help="A file; - for standard input, which is the default in a pipe.")
@click.option("-f", "--format", type=click.Choice(FORMATS), default="auto", show_default=True)
@click.option("--schema", type=_FILE, help="An Avro schema (.avsc) [default: inferred].")
@click.option("--backfill", is_flag=True, help="Events are old on purpose; a new topic keeps them.")
@click.option("--follow", is_flag=True, help="Go on as the file grows, through rotation.")
@click.option("--shard", metavar="I/N", help="Publish every N-th row, from I (0 to N-1) on.")
@click.option("--interval", type=_POSITIVE, default=1.0, help="Seconds between rows of metrics.")
@click.option("-n", "--max-events", type=click.IntRange(min=0), help="End after so many events.")
@click.option("--duration", type=click.FloatRange(min=0), help="End after so many seconds.")
@click.option("--rejects", type=_FILE, help=_REJECTS)
@click.option("--event-time", metavar="FIELD", help=_EVENT_TIME)
@click.option(
    "-p", "--partitions", type=click.IntRange(min=1), default=2, help="Of a new topic [2]."
)
@click.option("--server", help="The name the audit knows this publisher by [default: this host].")
@json_result
@cluster_options
def command(**options: Any) -> None:
    """Publish JSON lines, CSV, access logs or live host metrics to TOPIC, as Avro events.

    Ends with counts, and with exit code 0 (all is acknowledged), 2 (some rows did not fit and are
    in the rejects file) or 1 (failed). Ctrl-C and SIGTERM end it in order.
    """
    configure_logging(logging.WARNING if sys.stderr.isatty() else logging.INFO)
    sys.exit(publish(Options(**options)))


def publish(options: Options) -> int:
    """Run to the end; returns the exit code. Raises UserError."""
    _check(options)
    settings = find_settings(options.settings)
    deployment = load(settings)
    if settings is not None:
        # The audit's interceptor, which the producer loads by itself, looks there.
        os.environ[ENVIRONMENT] = str(settings.absolute())
    target = clusters.find_destination(
        deployment, options.bootstrap, options.command_config, options.cluster
    )
    with stop_signals() as signalled:
        stop = StopAfter(signalled, options.duration)
        source = _open(options, stop)
        folder = deployment.data_dir / "rejects"
        rejects = Rejects(options.rejects or folder / f"{options.topic}.jsonl")
        try:
            return _Run(options, deployment, target, source, rejects, stop).run()
        finally:
            rejects.close()
            source.close()


def _check(options: Options) -> None:
    """Refuse combinations of options that mean nothing."""
    clusters.check_topic(options.topic)
    if options.format == "metrics":
        for name in ("input", "follow", "shard", "event_time"):
            if getattr(options, name):
                raise UserError(
                    f"--{name.replace('_', '-')} means nothing with --format metrics",
                    "leave it out",
                )
    elif options.input is None and sys.stdin.isatty():
        raise UserError(
            "there is nothing to publish", "name a file with --input, or --format metrics"
        )
    if options.follow and options.input in (None, "-"):
        raise UserError("--follow needs a file", "name it with --input FILE")


def _open(options: Options, stop: StopAfter) -> Source:
    if options.format == "metrics":
        return metrics_source(options.interval, stop)
    return open_source(options.input or "-", options.format, options.follow, stop)


@dataclass(frozen=True, slots=True)
class _Run:
    """What belongs to one run, and its steps."""

    options: Options
    deployment: Deployment
    target: clusters.Destination
    source: Source
    rejects: Rejects
    stop: StopAfter

    def run(self) -> int:
        options, source = self.options, self.source
        rows = source.rows
        if options.event_time:
            rows = with_event_time(rows, options.event_time)
        # From all rows, whatever the shard: shards of one input have one schema.
        schema, rows = choose_schema(source, rows, options.schema, options.topic)
        if schema is None:
            return self._report(Counts(), 0)
        if options.shard:
            rows = Shard.parse(options.shard).of(rows)
        with RegistryClient(**registry_settings(self.deployment)) as registry:
            encoder = self._encoder(registry, schema)
            fit = self._fit(encoder)
            schema_id = register(encoder, options.topic)
            self._create_topic()
            _log.info(
                "ready %s to %s on %s, schema %d",
                source.name,
                options.topic,
                self.target.name,
                schema_id,
            )
            return self._send(rows, fit, encoder)

    def _encoder(self, registry: RegistryClient, schema: str) -> AvroEncoder:
        try:
            return AvroEncoder(registry, schema)
        except SerializationError as error:
            raise UserError(str(error), "give another schema with --schema") from error

    def _fit(self, encoder: AvroEncoder) -> Fit:
        if self.options.schema is None and self.source.schema is not None:
            return lambda values: values  # the source makes values of its own schema
        return fitter(encoder.codec.parsed, self.source.cells)

    def _create_topic(self) -> None:
        options = self.options
        made = clusters.create_topic(
            self.target, options.topic, options.partitions, options.backfill
        )
        if not made and options.backfill:
            _log.info("%s was there: its retention stays as it is", options.topic)

    def _send(self, rows: Rows, fit: Fit, encoder: AvroEncoder) -> int:
        options = self.options
        started = time.monotonic()
        producer = clusters.open_producer(self.target, options.server, options.backfill)
        old_ms = None if options.backfill else self.deployment.audit.skew_ms
        publisher = Publisher(producer, options.topic, fit, encoder, self.rejects, old_ms)
        try:
            name, total = Path(self.source.name).name, self.source.total
            with progress(name, total, tell=lambda text: _log.info("%s", text)) as meter:
                publisher.run(rows, self.stop, options.max_events, partial(self._tick, meter))
        finally:
            self._close(producer)
        code = self._report(publisher.counts, time.monotonic() - started)
        if publisher.error is not None:
            raise UserError(f"not all was published: {publisher.error}", "see the rejects file")
        return code

    def _tick(self, meter: Meter, counts: Counts) -> None:
        meter.tick(lambda: (self.source.position(), counts.text()))

    def _close(self, producer: Producer) -> None:
        """Deliver what is pending. A user that stops the command does not wait for ever."""
        timeout = SIGNALLED_CLOSE_S if self.stop.signalled else CLOSE_S
        try:
            producer.close(timeout)
        except TimedOutError as error:
            _log.error("%s", error)

    def _report(self, counts: Counts, seconds: float) -> int:
        refused = str(self.rejects.path) if counts.rejected or counts.failed else None
        topic = self.options.topic
        if self.options.as_json:
            printed = {"topic": topic, "cluster": self.target.name, **asdict(counts)}
            click.echo(json.dumps({**printed, "seconds": round(seconds, 3), "rejects": refused}))
        else:
            if refused:
                click.echo(f"what was not published, and why: {refused}")
            click.echo(f"{topic}: {counts.text()} seconds={seconds:.1f}")
        if self.stop.signalled and counts.exit_code == 2:
            return 0
        return counts.exit_code
