"""What a person would do after a drill: retire the reporters that are gone with their journals, and
look once more, with Spark and the scrub, at what was counted long ago.

What a reporter did last cannot be known if it is gone with its journal. So its windows have to be
UNKNOWN, or worse with that reason, until a person says that the reporter will not return.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from tallymark.errors import UserError
from tallymark_audit.judge.states import State
from tallymark_audit.proof.drill.faults import kinds
from tallymark_audit.proof.drill.findings.found import ALARMS, read_reporters, read_verdicts
from tallymark_audit.proof.drill.planning.topology import CONSUMER_HOP, TOPIC, WINDOW_MS
from tallymark_audit.proof.drill.running.processes import wait_until
from tallymark_audit.proof.drill.running.stage import (
    COMMAND_SECONDS,
    REPAIR_SECONDS,
    SETTLE_SECONDS,
    Stage,
)
from tallymark_audit.proof.drill.truth.books_and_logs import LostHost, LostMember

DISCREPANCIES: Final = 3
"""Exit code of a command that found something wrong."""
SPARK_CODES: Final = (0, DISCREPANCIES, 4)
"""Exit codes of a reconciliation that came to its end."""


@dataclass(frozen=True, slots=True)
class _Holder:
    """The reporter that holds an edge from ``at`` (ms) on: a run by its instance, or the runs of a
    server."""

    edge: str
    at: int
    instance: str = ""
    server: str = ""


def retire_lost(
    stage: Stage, hosts: Iterable[LostHost], members: Iterable[LostMember]
) -> Iterable[str]:
    """Check that each of them holds its windows UNKNOWN, and retire it. Yields what is wrong."""
    holders = [_Holder(f"producer-to-{one.cluster}", one.at, one.instance) for one in hosts]
    holders += [_Holder(CONSUMER_HOP, one.at, server=one.server) for one in members]
    for holder in holders:
        with stage.narrator.step(f"{holder.edge} has to be UNKNOWN from the lost journal on"):
            yield from _retire(stage, holder)


def _retire(stage: Stage, holder: _Holder) -> Iterable[str]:
    name = holder.instance or holder.server
    try:
        why = f"{holder.edge} is not held by the silence of {name}"
        wait_until(lambda: _holds(stage, holder, name), SETTLE_SECONDS, why, stage.processes)
    except UserError as error:
        yield str(error)
    for reporter in read_reporters(stage.store, holder.instance, holder.server):
        command = stage.processes.command("retire", ["audit", "retire", reporter])
        if command.wait(COMMAND_SECONDS):
            yield str(command.fail("failed"))


def _holds(stage: Stage, holder: _Holder, name: str) -> bool:
    place = holder.edge, TOPIC, holder.at - holder.at % WINDOW_MS
    # What another fault did to the window outranks that it is not known.
    rows = read_verdicts(stage.store, [State.UNKNOWN, *ALARMS])
    reasons = [
        reason
        for row in rows
        if (row["edge"], row["topic"], row["window"]) == place
        for reason in row["reasons"]
    ]
    return any(name in reason for reason in reasons)


def looks_for(done: Collection[str]) -> list[Sequence[str]]:
    """The commands by which these kinds of faults are found."""
    looks: list[Sequence[str]] = []
    if kinds.LOSS_FOR_SPARK in done:
        looks.append(("reconcile", "--all", "--topic", kinds.LOSS_FOR_SPARK))
    if any(kind in done for kind in kinds.LAKE_FAULTS):
        looks.append(("lake", "check", "--all"))
    looks += [("audit", "scrub", "--topic", kind) for kind in kinds.SCRUBBED_FAULTS if kind in done]
    return looks


def compare_with_spark(stage: Stage) -> Iterable[str]:
    """Let Spark count everything by itself. Yields each window of which it says something else than
    the collectors, and each hop that it did not judge."""
    with stage.narrator.step("tallymark reconcile --all"):
        result = stage.topology.folder / "reconciled.json"
        command = stage.processes.command("reconcile", ["reconcile", "--all", "--json", result])
        if command.wait(REPAIR_SECONDS) not in SPARK_CODES:
            yield str(command.fail("failed"))
            return
        told = json.loads(result.read_text(encoding="utf-8"))
        seen = {row["edge"] for row in told["edges"]}
        judged = {row["edge"] for row in read_verdicts(stage.store)}
        yield from (f"Spark did not judge {edge}" for edge in sorted(judged - seen))
        yield from (f"Spark and the collector disagree: {row}" for row in told["disagreements"])


def look_again(stage: Stage, looks: Iterable[Sequence[str]]) -> Iterable[str]:
    """Run these commands. Yields what went wrong with them."""
    for arguments in looks:
        with stage.narrator.step(f"tallymark {' '.join(arguments)}"):
            command = stage.processes.command(f"look-{arguments[-1]}", arguments)
            code = command.wait(REPAIR_SECONDS)
            if code != DISCREPANCIES:
                yield str(command.fail(f"ended with exit {code}"))
