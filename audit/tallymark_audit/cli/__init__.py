"""``tallymark audit``: the commands, one module a family."""

from __future__ import annotations

import click

from tallymark.shell.lazy_group import LazyGroup

_HERE = "tallymark_audit.cli"
_COMMANDS = {
    "collect": f"{_HERE}.running:collect",
    "overview": f"{_HERE}.looking:overview",
    "verdicts": f"{_HERE}.looking:verdicts",
    "evidence": f"{_HERE}.looking:evidence",
    "reporters": f"{_HERE}.looking:reporters",
    "alerts": f"{_HERE}.watching:alerts",
    "wait": f"{_HERE}.watching:wait",
    "edges": f"{_HERE}.deciding:edges",
    "repair": f"{_HERE}.mending:repair",
    "scrub": f"{_HERE}.scrubbing:scrub",
    "accept": f"{_HERE}.deciding:accept",
    "retire": f"{_HERE}.deciding:retire",
    "replay-journals": f"{_HERE}.running:replay_journals",
    "drill": "tallymark_audit.drill.cli:drill",
}


@click.group("audit", cls=LazyGroup, lazy=_COMMANDS)
def command() -> None:
    """Count, judge, name and repair."""


__all__ = ["command"]
