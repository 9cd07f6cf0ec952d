"""``tallymark audit accept``, ``retire`` and ``edges``: what a person decides, and about what."""

from __future__ import annotations

import getpass
import json
from dataclasses import replace
from typing import Final

import click
from rich.table import Table

from tallymark.deployment import load
from tallymark.shell.output import print_line, print_table
from tallymark_audit.cli import options
from tallymark_audit.decisions import Decider
from tallymark_audit.model.edges import derive_edges
from tallymark_audit.model.time_format import utc
from tallymark_audit.store import open_store
from tallymark_audit.store.judged.graph import KnownEdge, known_edges
from tallymark_audit.tables import plain

NOT_JUDGED: Final = -1


@click.command()
@options.settings
@click.argument("edge")
@click.argument("topic")
@click.argument("window", type=options.Time())
@click.option("--by", "who", help="Who accepts it.  [default: the user]")
@click.option("--note", default="", help="Why.")
@click.option("--undo", is_flag=True, help="Take an acceptance back.")
def accept(
    settings: str | None,
    edge: str,
    topic: str,
    window: int,
    who: str | None,
    note: str,
    undo: bool,
) -> None:
    """Let the watermark pass one WINDOW (its start, or a time in it) though it is not good.

    What is wrong stays recorded, and the user who accepted it, too. It holds until more is found to
    be missing, repeated or unclaimed.
    """
    name = "" if undo else who or getpass.getuser()
    deployment = load(settings)
    with open_store(deployment.audit_store) as store:
        window, state = Decider(store, deployment).accept(edge, topic, window, name, note)
    what = f"{topic} on {edge} at {utc(window)}"
    print_line(f"{what} is {state} and " + ("no longer accepted" if undo else "accepted"))


@click.command()
@options.settings
@click.argument("reporter")
def retire(settings: str | None, reporter: str) -> None:
    """End a REPORTER that died and will not return: windows no longer wait for it.

    What a producer acknowledged before its last report and no journal holds stays unclaimed; what a
    mirror or a group had not brought is lost. One that speaks again is back.
    """
    deployment = load(settings)
    with open_store(deployment.audit_store) as store:
        clusters = Decider(store, deployment).retire(reporter)
    print_line(f"{reporter} is retired on {', '.join(clusters)}")


@click.command()
@options.settings
@options.as_json
def edges(settings: str | None, as_json: bool) -> None:
    """The hops that are judged, and those that once were: their verdicts are kept."""
    deployment = load(settings)
    with open_store(deployment.audit_store) as store, store.read() as connection:
        known = {one.edge.name: one for one in known_edges(connection)}
    present = [
        known.get(edge.name, KnownEdge(edge, NOT_JUDGED)) for edge in derive_edges(deployment)
    ]
    names = {one.edge.name for one in present}
    former = [replace(one, until=one.until or 0) for one in known.values()]
    shown = [*present, *(one for one in former if one.edge.name not in names)]
    if as_json:
        click.echo(json.dumps([_to_json(one) for one in shown], indent=2))
        return
    table = Table("edge", "kind", "since", "until", box=None)
    for one in shown:
        until = "" if one.until is None else utc(one.until) if one.until else "not in the settings"
        table.add_row(plain(one.edge.name), one.edge.kind, _when(one.since), until)
    print_table(table)


def _to_json(one: KnownEdge) -> dict[str, object]:
    edge = one.edge
    return {
        "edge": edge.name,
        "kind": edge.kind,
        "upstream": edge.upstream,
        "downstream": edge.downstream,
        "since": None if one.since == NOT_JUDGED else one.since,
        "until": one.until,
    }


def _when(since: int) -> str:
    return "not judged yet" if since == NOT_JUDGED else utc(since) if since else "the beginning"
