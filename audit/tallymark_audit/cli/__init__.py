"""``tallymark audit``: the commands that need no process of their own.

Each is loaded when it is called. :mod:`.verdicts` shows what was judged, :mod:`.incidents` what
went wrong and whether the audit is as of now; :mod:`.decisions` takes a person's decisions,
:mod:`.repair` copies what is missing, :mod:`.scrubbing` counts once more, :mod:`.alerts` watches,
:mod:`.collect` runs a collector. Read :mod:`.verdicts` first.
"""

from __future__ import annotations

import click

from tallymark.shell.lazy_group import LazyGroup

_HERE = "tallymark_audit.cli"
_COMMANDS = {
    "collect": f"{_HERE}.collect:collect",
    "overview": f"{_HERE}.verdicts:overview",
    "verdicts": f"{_HERE}.verdicts:verdicts",
    "evidence": f"{_HERE}.verdicts:evidence",
    "reporters": f"{_HERE}.verdicts:reporters",
    "incidents": f"{_HERE}.incidents:incidents",
    "age": f"{_HERE}.incidents:age",
    "alerts": f"{_HERE}.alerts:alerts",
    "wait": f"{_HERE}.alerts:wait",
    "edges": f"{_HERE}.decisions:edges",
    "repair": f"{_HERE}.repair:repair",
    "scrub": f"{_HERE}.scrubbing:scrub",
    "accept": f"{_HERE}.decisions:accept",
    "retire": f"{_HERE}.decisions:retire",
    "replay-journals": f"{_HERE}.collect:replay_journals",
    "drill": "tallymark_audit.proof.drill.cli:drill",
}


@click.group("audit", cls=LazyGroup, lazy=_COMMANDS)
def command() -> None:
    """Count, judge, name and repair."""


__all__ = ["command"]
