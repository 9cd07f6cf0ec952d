"""``tallymark consume``: the messages of a topic, one a line."""

from __future__ import annotations

import base64
import json
import sys
from collections.abc import Iterator
from typing import Any

import click

from tallymark.cli.target import bootstrap_servers, cluster_options
from tallymark.client.fetched import Fetched, FetchSpec
from tallymark.client.simple_consumer import SimpleConsumer
from tallymark.client.stamps import STAMP_HEADER, Stamp, decode_stamp
from tallymark.errors import KafkaError, UserError
from tallymark.protocol.records import Record


@click.command("consume")
@click.argument("topic")
@click.option("--from-beginning", is_flag=True, help="Begin with the oldest message.")
@click.option("--max-messages", type=click.IntRange(min=1), help="End after so many.")
@click.option("--json", "as_json", is_flag=True, help="Print key, offset, headers ... as JSON.")
@cluster_options
def command(
    topic: str,
    from_beginning: bool,
    max_messages: int | None,
    as_json: bool,
    bootstrap: str | None,
    cluster: str | None,
    settings: str | None,
) -> None:
    """Print the messages of TOPIC as they come, until Ctrl-C."""
    servers = bootstrap_servers(bootstrap, cluster, settings)
    with SimpleConsumer(bootstrap_servers=servers, client_id="tallymark-consume") as consumer:
        messages = _messages(consumer, topic, from_beginning)
        for number, (partition, record) in enumerate(messages, start=1):
            _write(_as_json(topic, partition, record) if as_json else record.value or b"")
            if number == max_messages:
                return


def _messages(
    consumer: SimpleConsumer, topic: str, from_beginning: bool
) -> Iterator[tuple[int, Record]]:
    """(partition, record) as they come, for ever."""
    try:
        ends = consumer.start_offsets(topic) if from_beginning else consumer.end_offsets(topic)
    except KafkaError as error:
        if error.name != "UNKNOWN_TOPIC_OR_PARTITION":
            raise
        raise UserError(f"there is no topic {topic}", "see 'tallymark topics list'") from None
    specs = [FetchSpec(topic, partition, offset) for partition, offset in ends.items()]
    while True:
        outcomes = consumer.multifetch(specs)
        for index, outcome in enumerate(outcomes):
            if isinstance(outcome, Fetched):
                for record in outcome.records():
                    yield outcome.partition, record
                specs[index] = specs[index]._replace(
                    offset=outcome.next_offset, last_epoch=outcome.last_epoch
                )
            elif not outcome.retriable or len(specs) == 1 or outcome.name == "CORRUPT_MESSAGE":
                raise outcome


def _as_json(topic: str, partition: int, record: Record) -> bytes:
    document: dict[str, Any] = {
        "topic": topic,
        "partition": partition,
        "offset": record.offset,
        "timestamp": record.timestamp,
        "key": _text(record.key),
        "value": _text(record.value),
        "headers": [[name, _text(value)] for name, value in record.headers if name != STAMP_HEADER],
    }
    for name, value in record.headers:
        stamp = decode_stamp(value) if name == STAMP_HEADER and value is not None else None
        if isinstance(stamp, Stamp):
            document["stamp"] = {
                "server": stamp.server,
                "instance": stamp.instance.hex(),
                "partition": stamp.partition,
                "sequence": stamp.sequence,
            }
    return json.dumps(document, ensure_ascii=False).encode()


def _text(data: bytes | None) -> Any:
    """Text where it is UTF-8, else ``{"base64": ...}``."""
    if data is None:
        return None
    try:
        return data.decode()
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(data).decode()}


def _write(line: bytes) -> None:
    sys.stdout.buffer.write(line + b"\n")
    sys.stdout.buffer.flush()
