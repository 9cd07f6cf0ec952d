"""``tallymark audit repair``."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from typing import TypedDict, Unpack

import click

from tallymark.deployment import Deployment, load
from tallymark.errors import UserError
from tallymark.shell.output import print_line
from tallymark.untrusted import command
from tallymark_audit.cli import options
from tallymark_audit.cli.known_names import check_known
from tallymark_audit.cli.repair_output import show_plan, show_results
from tallymark_audit.collector.collector import wall_clock
from tallymark_audit.model.time_format import utc
from tallymark_audit.repair.apply import ItemResult
from tallymark_audit.repair.opened_clusters import OpenedClusters
from tallymark_audit.repair.plan import RepairPlan, make_repair_plan
from tallymark_audit.repair.plan_file import read_plan, write_plan
from tallymark_audit.repair.repair_run import RepairRun, repairable_edges
from tallymark_audit.repair.tails import tails_for
from tallymark_audit.repair.upstream import check_upstream
from tallymark_audit.repair.verify import wait_until_good
from tallymark_audit.store import Store, open_store
from tallymark_audit.store.judged.decisions import About

INCOMPLETE = 3
"""Exit code: something could not be repaired, or is still open."""


class RepairOptions(TypedDict):
    """The options of ``tallymark audit repair``; times in ms, ``timeout`` in seconds."""

    settings: str | None
    edge: str | None
    topic: str | None
    start: int | None
    end: int | None
    path: Path | None
    tails: tuple[Path, ...]
    carry_out: bool
    verify: bool
    timeout: float
    as_json: bool


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
@click.option(
    "--tails",
    multiple=True,
    type=click.Path(path_type=Path),
    help="A folder of records that a broker saved before it cut its log (its name ends with "
    "-truncated), or one that has some. Those of the brokers of this machine are found without.",
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
def repair(**given: Unpack[RepairOptions]) -> None:
    """Copy exactly the missing messages from upstream, once more looking whether they are. What a
    cluster lost in an unclean election is copied from what its brokers saved. What the lake lacks
    is loaded again: tallymark load --repair.

    Without --apply it only says what it would do, after a look at what upstream still has. Exits
    with 3 if some could not be repaired, or, with --verify, if a window still lacks anything by
    then; copies and changed contents, which it leaves as they are, are only listed.
    """
    carry_out, verify, as_json = given["carry_out"], given["verify"], given["as_json"]
    deployment = load(given["settings"])
    if verify and not carry_out and given["path"] is None:
        raise UserError("--verify needs to know what was repaired", "give it --plan or --apply")
    with open_store(deployment.audit_store) as store:
        plan = _plan(store, deployment, given)
        if not carry_out and not verify:
            with ExitStack() as stack:
                checks = check_upstream(plan, OpenedClusters(deployment, stack))
            show_plan(plan, checks, as_json)
            return
        results = _apply(store, deployment, plan, given) if carry_out else []
        still = wait_until_good(store, plan, given["timeout"]) if verify else []
    show_results(results, still, verify, as_json)
    failed = any(result.outcome not in ("repaired", "present") for result in results)
    if failed or any(not one.left_alone for one in still):
        raise click.exceptions.Exit(INCOMPLETE)


def _plan(store: Store, deployment: Deployment, given: RepairOptions) -> RepairPlan:
    """The plan of the file, if it is to be carried out or verified; else a new one."""
    path = given["path"]
    if path is not None and (given["carry_out"] or given["verify"]):
        return _made_before(path, given)
    with ExitStack() as stack:
        clusters = OpenedClusters(deployment, stack)
        found = tails_for(deployment, clusters.reader, given["tails"])
    for folder, why in found.others:
        click.echo(f"left alone: {folder}: {why}", err=True)
    with store.read() as connection:
        check_known(connection, deployment, None, given["topic"])
        plan = make_repair_plan(
            connection,
            repairable_edges(deployment, connection),
            wall_clock(),
            given["start"],
            given["end"],
            given["edge"],
            given["topic"],
            found.held,
        )
    if path is not None:
        write_plan(plan, path)
    return plan


def _made_before(path: Path, given: RepairOptions) -> RepairPlan:
    """The plan of the file, and nothing else: a person has read it."""
    chosen = (given["edge"], given["topic"], given["start"], given["end"])
    if any(one is not None for one in chosen):
        raise UserError(
            f"the plan {path} says what is repaired",
            "leave out --edge, --topic, --from and --to, or make another plan with them",
        )
    if not path.exists():
        raise UserError(
            f"there is no plan {path}",
            f"make it, and read it: {command('tallymark audit repair', plan=str(path))}",
        )
    return read_plan(path)


def _apply(
    store: Store, deployment: Deployment, plan: RepairPlan, given: RepairOptions
) -> list[ItemResult]:
    with ExitStack() as stack:
        clusters = OpenedClusters(deployment, stack)
        run = RepairRun(store, deployment, clusters, given["settings"], now=wall_clock)
        return run.carry_out(plan, _about(given), _said if not given["as_json"] else _unsaid)


def _about(given: RepairOptions) -> About:
    """What was asked for, as the store notes it."""
    start = -1 if given["start"] is None else given["start"]
    end = -1 if given["end"] is None else given["end"]
    return About(given["edge"] or "", given["topic"] or "", start, end)


def _said(result: ItemResult) -> None:
    item, key = result.item, result.item.key
    who = key.server or "(no stamp)"
    told = f"{result.outcome}: {result.copied.size} copied, {result.present.size} there"
    why = f" ({result.reason})" if result.reason else ""
    place = f"{utc(key.window)} {item.edge} {key.topic}"
    print_line(f"{place} {who}: of {item.count} {told}{why}")


def _unsaid(_result: ItemResult) -> None:
    """As JSON all results come at the end."""
