"""``tallymark consume``: the messages of topics, one a line."""

from __future__ import annotations

import sys
from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import ExitStack, closing
from typing import Any

import click

from tallymark.cli.messages.reading.avro_hint import AvroHint
from tallymark.cli.messages.reading.formats import parse_format
from tallymark.cli.messages.reading.groups import group_options, read_as_group, take_group
from tallymark.cli.messages.reading.options import Range, range_options, take_range
from tallymark.cli.messages.reading.reader import Stopped, read_pieces
from tallymark.cli.messages.reading.records import (
    FIELDS,
    Decode,
    Shown,
    as_json,
    as_line,
    avro,
    text,
)
from tallymark.cli.messages.reading.spans import Span, matching_topics
from tallymark.client.core.security.deployment import ConnectionSettings
from tallymark.client.core.security.http import registry_settings
from tallymark.client.reading.simple_consumer import SimpleConsumer
from tallymark.deployment import load
from tallymark.errors import UserError
from tallymark.processes.process import stop_signals
from tallymark.shell.named import several_named
from tallymark.shell.std_streams import drop_output, output_is_read
from tallymark.shell.target import cluster_options, take_target
from tallymark.untrusted import escaped_bytes

_SHOW = f"What to print before the value, with tabs between: some of {', '.join(FIELDS)}."
_FORMAT = "As kcat: %s value, %k key, %t topic, %p partition, %o offset, %T ms, %h headers, \\n."
_PATTERN = "Instead of TOPIC: all topics whose whole name matches."
_REGISTRY = "Decode Avro by the schemas of this registry."


@click.command("consume")
@several_named("topic", "topics", required=False)
@click.option("--pattern", metavar="REGEX", help=_PATTERN)
@range_options
@click.option("-n", "--max-messages", type=click.IntRange(min=1), help="End after so many.")
@group_options
@click.option("--json", "json_lines", is_flag=True, help="One JSON object for each message.")
@click.option("-f", "--format", "form", metavar="TEXT", help=_FORMAT)
@click.option("--show", metavar="FIELD,...", default="", help=_SHOW)
@click.option("--avro", "decode_avro", is_flag=True, help="Decode Avro by the settings' registry.")
@click.option("--registry", metavar="URL", help=_REGISTRY)
@cluster_options
def command(**options: Any) -> None:
    """Print the messages of TOPICs as they arrive, until Ctrl-C.

    Without an option it begins with new messages. With --group it shares the messages
    with the group's other consumers and goes on at the group's offsets; nothing else stores a
    position. Their number is printed on standard error.

    Exits with 0 at the end of the range and after Ctrl-C, with 1 when reading failed.
    """
    limit = options.pop("max_messages")
    with ExitStack() as stack:
        stop = stack.enter_context(stop_signals())
        hint = AvroHint(wanted=not (options["decode_avro"] or options["registry"]))
        show = _shower(options, stack)
        messages = stack.enter_context(closing(_messages(options, limit, stop)))
        count = _print(messages, show, hint)
    click.echo(f"{count} messages", err=True)


def _print(messages: Iterable[Shown | None], show: Callable[[Shown], bytes], hint: AvroHint) -> int:
    """Print one line for each; returns their number. Its reader may go away (``| head``)."""
    count = 0
    out = sys.stdout.buffer
    # A terminal would obey control characters in messages; in a file or a pipe bytes stay what they
    # are.
    shown = escaped_bytes if out.isatty() else bytes
    try:
        for message in messages:
            if message is None:  # a pause, or the end of what came at once
                out.flush()
                if not output_is_read():
                    drop_output()
                    break
                continue
            hint.look_at(message)
            out.write(shown(show(message)))
            count += 1
        out.flush()
    except BrokenPipeError:
        drop_output()
    return count


def _shower(options: dict[str, Any], stack: ExitStack) -> Callable[[Shown], bytes]:
    """A function from a message to the line that is printed."""
    form = options.pop("form")
    fields = [name.strip() for name in options.pop("show").split(",") if name.strip()]
    for name in fields:
        if name not in FIELDS:
            raise UserError(f"--show {name!r} is not known", f"give some of {', '.join(FIELDS)}")
    url, wanted = options.pop("registry"), options.pop("decode_avro")
    decode: Decode = text
    if url or wanted:
        from tallymark.serialization import AvroDecoder, RegistryClient  # not at every start

        known = None if url else registry_settings(load(options["settings"]))
        registry = RegistryClient(url) if known is None else RegistryClient(**known)
        decode = avro(AvroDecoder(stack.enter_context(registry)))
    json_lines = options.pop("json_lines")
    if sum((form is not None, bool(fields), json_lines)) > 1:
        raise UserError("--format, --show and --json all say what to print", "give one of them")
    if form is not None:
        return parse_format(form, lambda message: as_line(message, (), decode))
    if json_lines:
        return lambda message: as_json(message, decode) + b"\n"
    return lambda message: as_line(message, fields, decode) + b"\n"


def _messages(
    options: dict[str, Any], limit: int | None, stop: Stopped
) -> Generator[Shown | None, None, None]:
    """From partitions at given offsets, or as one of a group."""
    topics, pattern = options.pop("topics"), options.pop("pattern")
    if bool(topics) == bool(pattern):
        what = "TOPIC and --pattern both say" if topics else "neither TOPIC nor --pattern says"
        raise UserError(f"{what} what to read", "name topics, or give --pattern REGEX")
    group = take_group(options)
    asked = take_range(options)
    client = take_target(options).client
    if group is not None:
        return read_as_group({**group, **client}, topics, pattern, limit, stop)
    return _limited(_from_partitions(client, topics, pattern, asked, stop), limit)


def _limited(
    messages: Generator[Shown | None, None, None], limit: int | None
) -> Generator[Shown | None, None, None]:
    """The first ``limit`` messages."""
    count = 0
    with closing(messages):
        for message in messages:
            yield message
            count += message is not None
            if count == limit:
                return


def _from_partitions(
    client: ConnectionSettings,
    topics: Sequence[str],
    pattern: str | None,
    asked: Range,
    stop: Stopped,
) -> Generator[Shown | None, None, None]:
    with SimpleConsumer(
        **client, client_id="tallymark-consume", isolation=asked.isolation
    ) as consumer:
        names = matching_topics(consumer, pattern) if pattern else topics
        spans = asked.spans(consumer, names)
        for piece in read_pieces(consumer, spans, stop, on_gap=_warn):
            if piece is not None:
                topic, partition = piece.span.topic, piece.span.partition
                for offset, timestamp, key, value, headers in piece.records:
                    yield Shown(topic, partition, offset, timestamp, key, value, headers)
            yield None


def _warn(span: Span, to_offset: int) -> None:
    click.echo(
        f"{span.topic}-{span.partition}: offsets {span.position} to {to_offset - 1} were deleted "
        "before they were read",
        err=True,
    )
