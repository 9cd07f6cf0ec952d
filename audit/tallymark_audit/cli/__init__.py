"""``tallymark audit``: the commands, one module a family."""

from __future__ import annotations

import click

from tallymark_audit.cli.deciding import accept, edges, retire
from tallymark_audit.cli.looking import evidence, overview, reporters, verdicts
from tallymark_audit.cli.mending import repair
from tallymark_audit.cli.running import collect, replay_journals
from tallymark_audit.cli.watching import alerts, wait
from tallymark_audit.drill.cli import drill


@click.group("audit")
def command() -> None:
    """Count, judge, name and repair."""


for each in (
    collect,
    overview,
    verdicts,
    evidence,
    reporters,
    alerts,
    wait,
    edges,
    repair,
    accept,
    retire,
    replay_journals,
    drill,
):
    command.add_command(each)

__all__ = ["command"]
