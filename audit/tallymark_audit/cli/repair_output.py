"""What ``tallymark audit repair`` prints: the plan, and the results."""

from __future__ import annotations

import json
from typing import Any

import click
from rich.table import Table

from tallymark.shell.output import print_line, print_table
from tallymark_audit.model.time_format import utc
from tallymark_audit.repair.apply import ItemResult
from tallymark_audit.repair.plan import RepairPlan
from tallymark_audit.repair.plan_file import to_json
from tallymark_audit.repair.upstream import UpstreamCheck
from tallymark_audit.repair.verify import OpenWindow
from tallymark_audit.tables import plain


def show_plan(plan: RepairPlan, checks: list[UpstreamCheck], as_json: bool) -> None:
    """What a repair would do; ``checks`` say what upstream still has of the items."""
    can_be = sum(one.there.size for one in checks)
    if as_json:
        shown = {"copyable": can_be, "looked": [_check_to_json(one) for one in checks]}
        click.echo(json.dumps({**to_json(plan), **shown}, indent=2))
        return
    if plan.items:
        _show_items(plan, checks, can_be)
    else:
        click.echo("nothing is missing: there is nothing to repair")
    for one in plan.left:
        where = f"{utc(one.window)} {one.edge} {one.topic}"
        print_line(f"{where}: {one.count} {one.state}, left as it is: {one.reason}")


def _show_items(plan: RepairPlan, checks: list[UpstreamCheck], can_be: int) -> None:
    seen = {id(one.item): one for one in checks}
    names = ("window", "edge", "topic", "server", "missing", "sequences", "plan")
    table = Table(*names, box=None)
    for item in plan.items:
        refused = f"not possible: {item.refused}" if item.refused else ""
        copy = seen[id(item)].promise if not item.refused else ""
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
    unseen = sum(one.item.count for one in checks if not one.there and not one.gone)
    more = f", {unseen:,} more if the clusters that could not be read have them" if unseen else ""
    do = "; --apply does it" if can_be or unseen else ""
    print_line(f"{can_be} messages can be copied{more}{do}")


def _check_to_json(one: UpstreamCheck) -> dict[str, Any]:
    return {
        "edge": one.item.edge,
        **one.item.key._asdict(),
        "there": one.there.to_list(),
        "gone": one.gone.to_list(),
        "reason": one.reason,
    }


def show_results(
    results: list[ItemResult], still: list[OpenWindow], verify: bool, as_json: bool
) -> None:
    """What a repair did, and with ``verify`` the windows that are ``still`` open."""
    copied = sum(result.copied.size for result in results)
    if as_json:
        shown: dict[str, Any] = {
            "copied": copied,
            "results": [_result_to_json(one) for one in results],
        }
        if verify:
            shown["open"] = [one._asdict() for one in still]
        click.echo(json.dumps(shown, indent=2))
        return
    if results:
        click.echo(f"{copied} messages copied and acknowledged")
    for one in still:
        where = f"{utc(one.window)} {one.edge} {one.topic}"
        state = one.state or "without a verdict"
        alone = ", left as it is" if one.left_alone else ""
        print_line(f"{where}: still {state}{alone}: {one.reason}")
    if verify and not still:
        click.echo("all windows of the plan are good")


def _result_to_json(result: ItemResult) -> dict[str, Any]:
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
