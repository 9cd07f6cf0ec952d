"""``tallymark doctor``: what is missing on this machine, and what to do about it."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict

import click

from tallymark.deployment import load
from tallymark.deployment.places import find_places
from tallymark.processes.checks.reach import Finding, check_one
from tallymark.shell.output import json_option

COLOUR = {"ok": "green", "warning": "yellow", "failure": "red"}


@click.command("doctor")
@click.option("--settings", type=click.Path(), help="The settings file of the deployment.")
@click.option("--reach", metavar="PROCESS", help="Only look whether this process can be reached.")
@json_option
def command(settings: str | None, reach: str | None, as_json: bool) -> None:
    """Look for what is missing: Java, packages, disk, ports, reachability.

    Exits with 1 when something fails that the stack needs.
    """
    findings = (
        check_one(find_places(settings) or load(settings), reach) if reach else _all(settings)
    )
    if as_json:
        click.echo(json.dumps([asdict(finding) for finding in findings], indent=2))
    else:
        _show(findings)
    if any(finding.grade == "failure" for finding in findings):
        raise click.exceptions.Exit(1)


def _all(settings: str | None) -> list[Finding]:
    # imported here, since --reach needs none of it
    from tallymark.processes.checks.machine import run_checks

    return run_checks(load(settings))


def _show(findings: list[Finding]) -> None:
    """One line each: grade, what, text; and below it what to do. Nothing is cut."""
    graded = max(len(finding.grade) for finding in findings)
    named = max(len(finding.what) for finding in findings)
    for finding in findings:
        grade = click.style(f"{finding.grade:{graded}}", fg=COLOUR[finding.grade])
        click.echo(f"{grade}  {finding.what:{named}}  {finding.text}", color=sys.stdout.isatty())
        if finding.do:
            click.echo(f"{'':{graded}}  {'':{named}}  → {finding.do}")
