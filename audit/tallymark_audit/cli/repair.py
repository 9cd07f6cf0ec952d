"""``tallymark audit repair``."""

from __future__ import annotations

import json
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import click
from rich.table import Table
from sqlalchemy import Connection

from tallymark.deployment import Deployment, load
from tallymark.errors import UserError
from tallymark.shell.output import print_table, tell
from tallymark.trail import record_command
from tallymark_audit.cli import options
from tallymark_audit.cli.repair_clusters import OpenedClusters
from tallymark_audit.collector.collector import wall_clock
from tallymark_audit.model.cells import Edge
from tallymark_audit.model.edges import derive_edges, discovered_group
from tallymark_audit.model.time_format import utc
from tallymark_audit.repair import (
    ItemResult,
    OpenWindow,
    RepairPlan,
    UpstreamCheck,
    apply_plan,
    check_upstream,
    make_repair_plan,
    read_plan,
    to_json,
    wait_until_good,
    write_plan,
)
from tallymark_audit.store import Store, open_store
from tallymark_audit.store.counted.facts import groups_on
from tallymark_audit.store.schema.tables import repairs
from tallymark_audit.tables import plain

INCOMPLETE = 3
"""Exit code: something could not be repaired, or is still open."""


@click.command()
@options.settings
@options.edge
@options.topic
@options.period
@click.option(
    "--plan",
    "path",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Write the plan to this file; with --apply or --verify take the one that is there.",
)
@click.option("--apply", "carry_out", is_flag=True, help="Copy the missing messages.")
@click.option("--verify", is_flag=True, help="Wait until the windows are judged well, say if not.")
@click.option(
    "--timeout",
    type=click.FloatRange(min=0),
    default=120.0,
    show_default=True,
    help="Seconds --verify waits at most.",
)
@options.as_json
def repair(
    settings: str | None,
    edge: str | None,
    topic: str | None,
    start: int | None,
    end: int | None,
    path: Path | None,
    carry_out: bool,
    verify: bool,
    timeout: float,
    as_json: bool,
) -> None:
    """Copy exactly the missing messages from upstream, once more looking whether they are.

    Without --apply it only says what it would do, after a look at what upstream still has. Exits
    with 3 if some could not be repaired, or, with --verify, if a window still lacks anything by
    then; copies and changed contents, which it leaves as they are, are only listed.
    """
    deployment = load(settings)
    if verify and not carry_out and path is None:
        raise UserError("--verify needs to know what was repaired", "give it --plan or --apply")
    with open_store(deployment.audit_store) as store:
        now = wall_clock()
        if path is not None and path.exists() and (carry_out or verify):
            plan = read_plan(path)
        else:
            with store.read() as connection:
                edges = _edges(deployment, connection)
                plan = make_repair_plan(connection, edges, now, start, end, edge, topic)
            if path is not None:
                write_plan(plan, path)
        if not carry_out and not verify:
            with ExitStack() as stack:
                looked = check_upstream(plan, OpenedClusters(deployment, stack))
            _show_plan(plan, looked, as_json)
            return
        results: list[ItemResult] = []
        if carry_out:
            with ExitStack() as stack:
                done = _Progress(store, as_json, deployment)
                results = apply_plan(plan, OpenedClusters(deployment, stack), done)
        still = wait_until_good(store, plan, plan.made_at, timeout) if verify else []
    _show_results(results, still, verify, as_json)
    failed = any(result.outcome not in ("repaired", "present") for result in results)
    if failed or any(not one.left_alone for one in still):
        raise click.exceptions.Exit(INCOMPLETE)


def _edges(deployment: Deployment, connection: Connection) -> list[Edge]:
    """Those of the settings, and of the groups that are only known from their reports."""
    edges = {edge.name: edge for edge in derive_edges(deployment)}
    for cluster in deployment.clusters:
        for group, topics in groups_on(connection, cluster.name).items():
            found = discovered_group(cluster.name, group, topics)
            edges.setdefault(found.name, found)
    return list(edges.values())


class _Progress:
    """Keeps what became of each item as soon as that is known, and says so."""

    def __init__(self, store: Store, quiet: bool, deployment: Deployment) -> None:
        self._store = store
        self._folder = deployment.data_dir.absolute()
        self._quiet = quiet

    def __call__(self, result: ItemResult) -> None:
        item, key = result.item, result.item.key
        row = {
            "at": wall_clock(),
            "edge": item.edge,
            "topic": key.topic,
            "window": key.window,
            "partition": key.partition,
            "server": key.server,
            "instance": key.instance,
            "sequences": item.missing.to_list(),
            "copied": result.copied.size,
            "present": result.present.size,
            "outcome": result.outcome,
            "reason": result.reason,
        }
        with self._store.write() as connection:
            connection.execute(repairs.insert().values(**row))
        record_command(
            wall_clock(),
            "REPAIR",
            ("partition", f"{key.topic}-{key.partition} on {item.edge} at {utc(key.window)}"),
            after={name: row[name] for name in ("sequences", "copied", "present", "outcome")},
            message=result.reason or None,
            folder=self._folder,
        )
        if not self._quiet:
            who = key.server or "(no stamp)"
            told = f"{result.outcome}: {result.copied.size} copied, {result.present.size} there"
            why = f" ({result.reason})" if result.reason else ""
            place = f"{utc(key.window)} {item.edge} {key.topic}"
            tell(f"{place} {who}: of {item.count} {told}{why}")


def _show_plan(plan: RepairPlan, looked: list[UpstreamCheck], as_json: bool) -> None:
    can_be = sum(one.there.size for one in looked)
    if as_json:
        told = {"copyable": can_be, "looked": [_as_looked(one) for one in looked]}
        click.echo(json.dumps({**to_json(plan), **told}, indent=2))
        return
    seen = {id(one.item): one for one in looked}
    if not plan.items:
        click.echo("nothing is missing: there is nothing to repair")
    else:
        names = ("window", "edge", "topic", "server", "missing", "sequences", "plan")
        table = Table(*names, box=None)
        for item in plan.items:
            refused = f"not possible: {item.refused}" if item.refused else ""
            copy = _promise(seen[id(item)]) if not item.refused else ""
            table.add_row(
                utc(item.key.window),
                plain(item.edge),
                plain(item.key.topic),
                plain(item.key.server or "(no stamp)"),
                str(item.count),
                str(item.missing)[:60],
                plain(refused or copy),
            )
        print_table(table)
        unseen = sum(one.item.count for one in looked if not one.there and not one.gone)
        more = (
            f", {unseen:,} more if the clusters that could not be read have them" if unseen else ""
        )
        do = "; --apply does it" if can_be or unseen else ""
        tell(f"{can_be} messages can be copied{more}{do}")
    for one in plan.left:
        where = f"{utc(one.window)} {one.edge} {one.topic}"
        tell(f"{where}: {one.count} {one.state}, left as it is: {one.reason}")


def _promise(one: UpstreamCheck) -> str:
    """What --apply would do with an item, as upstream is now."""
    item = one.item
    copy = f"copy {one.there.size} from {item.upstream} to {item.downstream} {item.topic}"
    if one.there:
        return f"{copy}; {one.reason}" if one.reason else copy
    return f"not possible: {one.reason}" if one.gone else one.reason


def _as_looked(one: UpstreamCheck) -> dict[str, Any]:
    return {
        "edge": one.item.edge,
        **one.item.key._asdict(),
        "there": one.there.to_list(),
        "gone": one.gone.to_list(),
        "reason": one.reason,
    }


def _show_results(
    results: list[ItemResult], still: list[OpenWindow], verify: bool, as_json: bool
) -> None:
    copied = sum(result.copied.size for result in results)
    if as_json:
        told: dict[str, Any] = {"copied": copied, "results": [_told(one) for one in results]}
        if verify:
            told["open"] = [one._asdict() for one in still]
        click.echo(json.dumps(told, indent=2))
        return
    if results:
        click.echo(f"{copied} messages copied and acknowledged")
    for one in still:
        where = f"{utc(one.window)} {one.edge} {one.topic}"
        state = one.state or "without a verdict"
        alone = ", left as it is" if one.left_alone else ""
        tell(f"{where}: still {state}{alone}: {one.reason}")
    if verify and not still:
        click.echo("all windows of the plan are good")


def _told(result: ItemResult) -> dict[str, Any]:
    return {
        "edge": result.item.edge,
        **result.item.key._asdict(),
        "outcome": result.outcome,
        "copied": result.copied.to_list(),
        "present": result.present.to_list(),
        "gone": result.gone.to_list(),
        "superseded": result.superseded.to_list(),
        "reason": result.reason,
    }
