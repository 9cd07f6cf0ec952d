"""``tallymark doctor``: what is missing on this machine, and what to do about it."""

from __future__ import annotations

import click
from rich.console import Console
from rich.table import Table

from tallymark.cli.checks import check_one, run_checks
from tallymark.deployment import load

MARK = {"ok": "[green]ok[/]", "warning": "[yellow]warning[/]", "failure": "[red]failure[/]"}


@click.command("doctor")
@click.option("--settings", type=click.Path(), help="The settings file of the deployment.")
@click.option("--reach", metavar="PROCESS", help="Only look whether this process can be reached.")
def command(settings: str | None, reach: str | None) -> None:
    """Look for what is missing: Java, packages, disk, ports, reachability.

    Exits with 1 when something fails that the stack needs.
    """
    deployment = load(settings)
    findings = check_one(deployment, reach) if reach else run_checks(deployment)
    table = Table(box=None, padding=(0, 2, 0, 0), show_header=False)
    for finding in findings:
        text = f"{finding.text}\n→ {finding.do}" if finding.do else finding.text
        table.add_row(MARK[finding.grade], finding.what, text)
    Console().print(table)
    if any(finding.grade == "failure" for finding in findings):
        raise click.exceptions.Exit(1)
