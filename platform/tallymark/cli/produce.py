"""``tallymark produce``: the lines of standard input, one message each."""

from __future__ import annotations

import sys
from collections.abc import Iterable

import click

from tallymark.cli.target import bootstrap_servers, cluster_options
from tallymark.client.producer import Producer
from tallymark.errors import TallymarkError, UserError


@click.command("produce")
@click.argument("topic")
@click.option("--key-separator", metavar="TEXT", help="What stands before it is the key.")
@click.option("--acks", type=click.Choice(["all", "1", "0"]), default="all", show_default=True)
@click.option("--compression", default="none", show_default=True, metavar="CODEC")
@cluster_options
def command(
    topic: str,
    key_separator: str | None,
    acks: str,
    compression: str,
    bootstrap: str | None,
    cluster: str | None,
    settings: str | None,
) -> None:
    """Publish the lines of standard input to TOPIC. Exits with 1 if one was not delivered."""
    failures: list[Exception] = []
    separator = key_separator.encode() if key_separator else None
    with Producer(
        bootstrap_servers=bootstrap_servers(bootstrap, cluster, settings),
        client_id="tallymark-produce",
        acks="all" if acks == "all" else 1 if acks == "1" else 0,
        compression_type=compression,
    ) as producer:
        count = _send_lines(producer, topic, sys.stdin.buffer, separator, failures)
    if failures:
        raise UserError(f"{len(failures)} of {count} messages were not delivered: {failures[0]}")
    click.echo(f"{count} messages delivered to {topic}", err=True)


def _send_lines(
    producer: Producer,
    topic: str,
    lines: Iterable[bytes],
    separator: bytes | None,
    failures: list[Exception],
) -> int:
    def note(error: Exception | None, _: object) -> None:
        if error is not None:
            failures.append(error)

    count = 0
    for line in lines:
        value, key = line.rstrip(b"\r\n"), None
        if separator is not None and separator in value:
            key, _, value = value.partition(separator)
        try:
            producer.send(topic, value, key=key, on_delivery=note)
        except TallymarkError as error:
            raise UserError(f"after {count} messages: {error}") from error
        count += 1
    return count
