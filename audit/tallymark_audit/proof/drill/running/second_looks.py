"""Looking once more at what was counted long ago: Spark, and the scrub. Each is to find something
wrong, and to say so by its exit code."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Final

from tallymark_audit.proof.drill.faults import kinds
from tallymark_audit.proof.drill.running.stage import REPAIR_SECONDS, Stage

DISCREPANCIES: Final = 3
"""Exit code of who looked and found something wrong."""


def looks_for(done: Collection[str]) -> list[Sequence[str]]:
    """The commands by which these kinds of faults are found."""
    looks: list[Sequence[str]] = []
    if kinds.LOSS_FOR_SPARK in done:
        looks.append(("reconcile", "--all", "--topic", kinds.LOSS_FOR_SPARK))
    looks += [("audit", "scrub", "--topic", kind) for kind in kinds.SCRUBBED_FAULTS if kind in done]
    return looks


def look_again(stage: Stage, looks: Iterable[Sequence[str]]) -> Iterable[str]:
    """Run these commands. What went wrong with them."""
    for arguments in looks:
        with stage.narrator.step(f"tallymark {' '.join(arguments)}"):
            command = stage.processes.command(f"look-{arguments[-1]}", arguments)
            code = command.wait(REPAIR_SECONDS)
            if code != DISCREPANCIES:
                yield str(command.fail(f"ended with exit {code}"))
