"""``tallymark topics``: list, create, delete and describe topics."""

from __future__ import annotations

import click

from tallymark.cli.target import bootstrap_servers, cluster_options
from tallymark.client.admin import Admin
from tallymark.client.fetched import EARLIEST, LATEST
from tallymark.client.simple_consumer import SimpleConsumer
from tallymark.errors import UserError


@click.group("topics")
def command() -> None:
    """List, create, describe and delete topics."""


@command.command("list")
@cluster_options
def list_topics(bootstrap: str | None, cluster: str | None, settings: str | None) -> None:
    """Print every topic and its number of partitions."""
    with Admin(bootstrap_servers=bootstrap_servers(bootstrap, cluster, settings)) as admin:
        for name, info in admin.topics().items():
            click.echo(f"{name}\t{info.partition_count}")


@command.command("create")
@click.argument("name")
@click.option("--partitions", type=click.IntRange(min=1), default=1, show_default=True)
@click.option("--config", "configs", multiple=True, metavar="KEY=VALUE", help="Repeatable.")
@cluster_options
def create(
    name: str,
    partitions: int,
    configs: tuple[str, ...],
    bootstrap: str | None,
    cluster: str | None,
    settings: str | None,
) -> None:
    """Create the topic NAME; fine when it is there already."""
    pairs = dict(_pair(text) for text in configs)
    with Admin(bootstrap_servers=bootstrap_servers(bootstrap, cluster, settings)) as admin:
        made = admin.create_topic(name, partitions, pairs)
    click.echo(f"{name}: {'created' if made else 'was there'}")


@command.command("delete")
@click.argument("name")
@cluster_options
def delete(name: str, bootstrap: str | None, cluster: str | None, settings: str | None) -> None:
    """Delete the topic NAME with all its messages."""
    with Admin(bootstrap_servers=bootstrap_servers(bootstrap, cluster, settings)) as admin:
        if not admin.delete_topic(name):
            raise UserError(f"there is no topic {name}", "see 'tallymark topics list'")
    click.echo(f"{name}: deleted")


@command.command("describe")
@click.argument("name")
@cluster_options
def describe(name: str, bootstrap: str | None, cluster: str | None, settings: str | None) -> None:
    """Print the partitions of the topic NAME: leader, epoch, first and next offset."""
    servers = bootstrap_servers(bootstrap, cluster, settings)
    with Admin(bootstrap_servers=servers) as admin:
        info = admin.topics().get(name)
        leaders = admin.leaders(name)
    if info is None:
        raise UserError(f"there is no topic {name}", "see 'tallymark topics list'")
    click.echo(f"{name}\tid {info.topic_id}\t{info.partition_count} partitions")
    with SimpleConsumer(bootstrap_servers=servers) as consumer:
        for partition in info.partitions:
            broker, epoch = leaders[partition]
            (start,) = consumer.get_offsets_before(name, partition, EARLIEST)
            (end,) = consumer.get_offsets_before(name, partition, LATEST)
            click.echo(f"{partition}\tleader {broker}\tepoch {epoch}\toffsets {start} to {end}")


def _pair(text: str) -> tuple[str, str]:
    key, equals, value = text.partition("=")
    if not equals or not key:
        raise UserError(f"--config {text!r} is not KEY=VALUE", "for example retention.ms=86400000")
    return key, value
