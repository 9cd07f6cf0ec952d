"""``tallymark audit overview``, ``verdicts``, ``evidence`` and ``reporters``: what is known."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Final, Unpack

import click
from rich.table import Table

from tallymark.clock import now_ms
from tallymark.deployment import load
from tallymark.errors import UserError
from tallymark.shell.output import print_table
from tallymark_audit.cli import options
from tallymark_audit.cli.known_names import check_known
from tallymark_audit.judge.verdicts import State
from tallymark_audit.model.time_format import utc
from tallymark_audit.store import open_store
from tallymark_audit.store.counted.facts import is_retired
from tallymark_audit.store.judged.window_at import window_at
from tallymark_audit.store.reading import queries, window_evidence
from tallymark_audit.store.reading.window_evidence import shown_evidence
from tallymark_audit.store.schema.portions import MOST_ROWS, Portion, portion_of
from tallymark_audit.store.schema.rows import Row, is_cells
from tallymark_audit.store.schema.shown import shown_verdict
from tallymark_audit.tables import (
    evidence_tables,
    overview_table,
    plain,
    verdict_table,
)

SHOWN: Final = 100
CELLS_OF_EACH: Final = 100
"""Cells that ``verdicts --json`` has of each window; ``evidence`` has more."""
LIMIT_HELP: Final = f"At most so many rows of a list (default: {SHOWN}; as JSON 1000)."


@click.command()
@options.settings
@options.as_json
def overview(settings: str | None, as_json: bool) -> None:
    """How complete every topic is on every edge, and how far."""
    with open_store(load(settings).audit_store) as store, store.read() as connection:
        topics = queries.overview(connection, now=now_ms())
    if as_json:
        click.echo(json.dumps([asdict(topic) for topic in topics], indent=2))
    else:
        print_table(overview_table(topics))


@click.command()
@options.listed(map(str, State), "The newest so many windows.")
def verdicts(**given: Unpack[options.Listed]) -> None:
    """The verdict of every window, the newest first."""
    as_json, place = given["as_json"], (given["edge"], given["topic"])
    which = *place, given["start"], given["end"], given["states"], given["limit"]
    deployment = load(given["settings"])
    with open_store(deployment.audit_store) as store, store.read() as connection:
        check_known(connection, deployment, *place)
        found = queries.windows(connection, *which, cells=as_json)
    rows = [shown_verdict(row) for row in found]
    for row in rows if as_json else ():
        few = portion_of(row["cells"], CELLS_OF_EACH) if is_cells(row["cells"]) else Portion(())
        row |= {"cells": list(few.rows), "cells_left_out": few.left_out}
    if as_json:
        click.echo(json.dumps(rows, indent=2))
    else:
        print_table(verdict_table(rows))


@click.command()
@options.settings
@click.argument("edge")
@click.argument("topic")
@click.argument("window", type=options.Time())
@click.option("-n", "--limit", type=click.IntRange(1, options.MOST_ROWS), help=LIMIT_HELP)
@options.as_json
def evidence(
    settings: str | None, edge: str, topic: str, window: int, limit: int | None, as_json: bool
) -> None:
    """About one WINDOW (its start, or a time in it): what was claimed and seen by which reporter,
    and where the missing messages are."""
    most = limit or (MOST_ROWS if as_json else SHOWN)
    deployment = load(settings)
    with open_store(deployment.audit_store) as store, store.read() as connection:
        window = window_at(connection, edge, topic, window, deployment.audit.window_ms)
        found = shown_evidence(window_evidence.evidence(connection, edge, topic, window, most))
    if not found.verdicts and not found.upstream and not found.downstream:
        raise UserError(
            f"nothing is known of {topic} on {edge} at {utc(window)}",
            "see: tallymark audit verdicts",
        )
    if as_json:
        click.echo(json.dumps(asdict(found), indent=2))
        return
    for table in evidence_tables(found):
        print_table(table)
    for name, count in found.left_out.items():
        click.echo(f"and {count:,} more rows of {name}: --limit")


def _reporter_state(row: Row, since: int) -> str:
    """``since`` (ms): a reporter without a report from then on is silent."""
    if row["closed"]:
        return "closed"
    if is_retired(row):
        return "retired"
    return "live" if row["last_heard"] >= since else "silent"


@click.command()
@options.settings
@click.option("--live", is_flag=True, help="Only those that are heard of: not closed, not silent.")
@click.option(
    "-n",
    "--limit",
    default=1000,
    show_default=True,
    type=click.IntRange(1, options.MOST_ROWS),
    help="So many, the last heard of each cluster first.",
)
@options.as_json
def reporters(settings: str | None, live: bool, limit: int, as_json: bool) -> None:
    """The reporters: since when they report, and how complete their reports are."""
    deployment = load(settings)
    with open_store(deployment.audit_store) as store, store.read() as connection:
        rows = queries.all_reporters(connection, live, limit + 1)
    more, rows = len(rows) > limit, rows[:limit]
    since = now_ms() - deployment.audit.silence_ms
    if live:
        rows = [row for row in rows if row["last_heard"] >= since]
    if as_json:
        click.echo(json.dumps(rows, indent=2))
        return
    names = ("reporter", "cluster", "server", "application", "group")
    table = Table(*names, "heard", "complete through", "state", box=None)
    for row in rows:
        state = _reporter_state(row, since)
        through = "all" if row["closed"] else utc(row["complete_through"])
        who = [row[name] for name in (*names[:-1], "consumer_group")]
        table.add_row(*map(plain, who), utc(row["last_heard"]), through, state)
    print_table(table)
    if more:
        click.echo(f"and more than these {limit:,}: --limit")
