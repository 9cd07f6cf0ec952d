"""``tallymark topics config``: the configs of a topic, where each comes from, and changing them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import click

from tallymark.client.admin.admin import Admin
from tallymark.client.admin.configs import Change, ConfigEntry, ConfigResource, ListChange
from tallymark.errors import UserError
from tallymark.shell.absent import Kind, asking_about
from tallymark.shell.named import one_named
from tallymark.shell.output import json_option, print_line, show
from tallymark.shell.target import cluster_options, take_target


@click.command("config")
@one_named("topic", "name")
@click.option("--set", "changes", multiple=True, metavar="KEY=VALUE", help="Repeatable.")
@click.option("--append", multiple=True, metavar="KEY=VALUE", help="Add to a list.")
@click.option("--subtract", multiple=True, metavar="KEY=VALUE", help="Take from a list.")
@click.option("--unset", multiple=True, metavar="KEY", help="Back to the default.")
@click.option("--all", "everything", is_flag=True, help="Show defaults, too.")
@click.option("--broker", is_flag=True, help="NAME is a broker's id, or 'all'.")
@click.option("--dry-run", is_flag=True, help="Check without a change.")
@json_option
@cluster_options
def config(
    name: str,
    changes: tuple[str, ...],
    append: tuple[str, ...],
    subtract: tuple[str, ...],
    unset: tuple[str, ...],
    everything: bool,
    broker: bool,
    dry_run: bool,
    as_json: bool,
    **options: Any,
) -> None:
    """Print the configs of the topic NAME, or change some; the others stay as they are."""
    wanted: dict[str, Change] = {
        **pairs(changes, "--set"),
        **{key: ListChange("append", text) for key, text in pairs(append, "--append").items()},
        **{
            key: ListChange("subtract", text) for key, text in pairs(subtract, "--subtract").items()
        },
        **dict.fromkeys(unset),
    }
    resource = ConfigResource("topic", name)
    if broker:
        resource = ConfigResource("broker", "" if name == "all" else name)
    kind: Kind = "broker" if broker else "topic"
    with Admin(**take_target(options).client) as admin, asking_about(kind, name):
        if wanted:
            admin.alter_configs({resource: wanted}, validate_only=dry_run).check()
            print_line(f"{name}: {'would be changed' if dry_run else 'changed'}", as_json)
            if dry_run:
                return
        entries = admin.describe_configs([resource]).check()[resource]
    shown = (
        entry
        for entry in sorted(entries.values(), key=lambda entry: entry.name)
        if everything or not entry.is_default
    )
    show(map(_row, shown), ("name", "value", "source"), as_json)


def pairs(texts: Iterable[str], option: str) -> dict[str, str]:
    """``KEY=VALUE`` texts as a dictionary. UserError."""
    found: dict[str, str] = {}
    for text in texts:
        key, equals, value = text.partition("=")
        if not equals or not key:
            raise UserError(
                f"{option} {text!r} is not KEY=VALUE", "for example retention.ms=86400000"
            )
        found[key] = value
    return found


def _row(entry: ConfigEntry) -> dict[str, Any]:
    return {
        "name": entry.name,
        "value": "(secret)" if entry.sensitive else entry.value,
        "source": entry.source,
        "read_only": entry.read_only,
        "type": entry.type,
        "synonyms": [
            {"name": one.name, "value": one.value, "source": one.source} for one in entry.synonyms
        ],
    }
