"""``tallymark status``: the processes of the stacks that run here."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import timedelta

import click
from rich.console import Console
from rich.table import Table

from tallymark.cli.stack.stacks import Stack, named_stack, running_stacks
from tallymark.shell.output import print_table


@click.command("status")
@click.option("--settings", type=click.Path(), help="The settings file of the deployment.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def command(settings: str | None, as_json: bool) -> None:
    """Show the processes of the stack that ``tallymark up`` keeps running.

    Without --settings and TALLYMARK_SETTINGS: every stack that runs below ./.tallymark, with the
    line to set for talking to it.

    Exits with 1 when no stack runs or one of its processes does not serve.
    """
    stacks = [named_stack(settings)] if settings else running_stacks()
    if as_json:
        click.echo(json.dumps(_rows(stacks), indent=2))
        for stack in stacks:
            if stack.trouble:
                click.echo(f"tallymark: {stack.trouble}", err=True)
    else:
        _show(stacks)
    if not all(stack.ready for stack in stacks):
        raise click.exceptions.Exit(1)


def _rows(stacks: Sequence[Stack]) -> list[dict[str, object]]:
    return [
        {**process, "settings": str(stack.settings)}
        for stack in stacks
        for process in stack.processes
    ]


def _show(stacks: Sequence[Stack]) -> None:
    console = Console()
    for number, stack in enumerate(stacks):
        if number:
            console.print()
        if stack.trouble:
            console.print(stack.trouble, style="red", highlight=False, soft_wrap=True, markup=False)
        else:
            print_table(_table(stack))
        console.print(f"TALLYMARK_SETTINGS={stack.settings}", highlight=False, soft_wrap=True)


def _table(stack: Stack) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0))
    for column in ("process", "state", "for", "pid", "restarts", "address"):
        table.add_column(
            column, justify="right" if column in ("for", "pid", "restarts") else "left"
        )
    for process in stack.processes:
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
