"""``tallymark status``: the processes of the running stack."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any

import click
from rich.console import Console
from rich.table import Table

from tallymark.cli.supervisor.control import ask
from tallymark.cli.supervisor.run import control_file
from tallymark.deployment import load


@click.command("status")
@click.option("--settings", type=click.Path(), help="The settings file of the deployment.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def command(settings: str | None, as_json: bool) -> None:
    """Show the processes of the stack that ``tallymark up`` keeps running.

    Exits with 1 when no stack runs or one of its processes does not serve.
    """
    processes: list[dict[str, Any]] = ask(control_file(load(settings)), {"do": "status"})[
        "processes"
    ]
    if as_json:
        click.echo(json.dumps(processes, indent=2))
    else:
        Console().print(_table(processes))
    if any(process["state"] != "ready" for process in processes):
        raise click.exceptions.Exit(1)


def _table(processes: list[dict[str, Any]]) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0))
    for column in ("process", "state", "for", "pid", "restarts", "address"):
        table.add_column(
            column, justify="right" if column in ("for", "pid", "restarts") else "left"
        )
    for process in processes:
        ready = process["state"] == "ready"
        table.add_row(
            process["name"],
            f"[green]{process['state']}[/]" if ready else f"[red]{process['state']}[/]",
            str(timedelta(seconds=process["seconds"])),
            str(process["pid"] or ""),
            str(process["restarts"]),
            process["address"] if ready else process["reason"] or process["log"],
        )
    return table
