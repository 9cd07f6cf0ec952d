"""Loading the lake of a drill, and damaging what was loaded."""

from __future__ import annotations

import random
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final

from tallymark.client import SimpleConsumer
from tallymark.clock import now_ms
from tallymark_audit.model.cells import LAKE
from tallymark_audit.proof.drill.faults.ground_truth import (
    FaultNote,
    GroundTruthWriter,
    notes_of,
)
from tallymark_audit.proof.drill.faults.lake_files import damage, files_of, records_of
from tallymark_audit.proof.drill.planning.topology import AGGREGATE, SideTopic
from tallymark_audit.proof.drill.running.processes import wait_until
from tallymark_audit.proof.drill.running.stage import COMMAND_SECONDS, Stage

HOP: Final = f"{AGGREGATE}-to-{LAKE}"
_LEAST_ROWS: Final = 20
"""A file that is damaged has more: some rows of it stay."""
_WAIT_SECONDS: Final = 90.0
_STILL_SECONDS: Final = 3.0
"""A mirror that copies nothing for so long, and has all, is done."""


def change_in_lake(
    stage: Stage, topic: SideTopic, ground_truth: GroundTruthWriter, chance: random.Random
) -> None:
    """Load the topic so far, and damage one of its files. UserError: it cannot be loaded, or
    nothing came."""
    table = Path(stage.topology.deployment.lake_path) / AGGREGATE / topic.name

    def has_rows() -> bool:
        _load(stage, topic.name)
        return any(_rows(file) > _LEAST_ROWS for file in files_of(table))

    why = f"nothing of {topic.name} is in the lake"
    wait_until(has_rows, _WAIT_SECONDS, why, stage.processes)
    file = chance.choice([file for file in files_of(table) if _rows(file) > _LEAST_ROWS])
    records = damage(file, topic.name, chance)
    note = FaultNote(now_ms(), topic.name, HOP, topic.name)
    ground_truth.write(notes_of(note, records))
    stage.narrator.say(f"{topic.name}: {len(records)} rows of {file.name}")


def load_rest(stage: Stage, topics: Sequence[SideTopic]) -> None:
    """Load what is left of these topics, once all of it is in the aggregate. UserError: it does not
    get there, or cannot be loaded."""
    if not topics:
        return
    with stage.narrator.step("loading the rest into the lake"):
        last: list[tuple[int, float]] = [(-1, 0.0)]

        def is_copied() -> bool:
            written = _ends(stage, ((topic.home, topic.name) for topic in topics))
            copied = _ends(stage, ((AGGREGATE, topic.name) for topic in topics))
            if copied != last[-1][0]:
                last.append((copied, time.monotonic()))
            return copied >= written and time.monotonic() - last[-1][1] > _STILL_SECONDS

        wait_until(is_copied, _WAIT_SECONDS, "mirrors are behind", stage.processes)
        _load(stage)


def _load(stage: Stage, topic: str = "") -> None:
    arguments = ["load", "--here", *(["--topic", topic] if topic else [])]
    command = stage.processes.command("load", arguments)
    if code := command.wait(COMMAND_SECONDS):
        raise command.fail(f"ended with exit {code}")


def _rows(file: Path) -> int:
    return sum(map(len, records_of(file).values()))


def _ends(stage: Stage, logs: Iterable[tuple[str, str]]) -> int:
    """How many records these logs have held."""
    count = 0
    for cluster, topic in logs:
        bootstrap = stage.topology.straight(cluster)
        with SimpleConsumer(bootstrap_servers=bootstrap, client_id="drill") as consumer:
            count += sum(consumer.end_offsets(topic).values())
    return count
