"""The ground truth of a drill: what was done to which messages, kept apart from all that judges.

What makes a fault (the proxy, the log faults) writes it to a file at once; only the comparison
reads it, after the verdicts are in. One JSON object a line::

    {"at": ms, "kind": "drop", "hop": "dc1-to-aggregate", "topic": "orders", "partition": 0,
     "server": "web-1", "instance": "1b6d1d138b679715", "sequences": [17, 17, 23, 24]}

``topic`` and ``partition`` are the origin's, ``sequences`` ranges, flat. A line that a kill cut is
left out. What has no stamp (monitoring events) has an empty instance and no sequences; events whose
bits were turned have the CRC-32 of their values instead, by which they are found in the log.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from tallymark.client.producing.stamps import Stamp, stamp_of
from tallymark.protocol.records.batch import Record
from tallymark_audit.model.ranges import EMPTY, RangeSet


@dataclass(frozen=True, slots=True)
class FaultNote:
    """One thing that was done. ``at`` in ms, see the module."""

    at: int
    kind: str
    hop: str
    topic: str
    partition: int = -1
    server: str = ""
    instance: str = ""
    sequences: RangeSet = EMPTY


def notes_of(note: FaultNote, records: Iterable[Record]) -> list[FaultNote]:
    """The note, once for each origin among the records, with its sequences."""
    found: dict[tuple[int, str, str], list[int]] = {}
    for record in records:
        stamp = stamp_of(record.headers)
        if isinstance(stamp, Stamp):
            origin = (stamp.partition, stamp.server, stamp.instance.hex())
            found.setdefault(origin, []).append(stamp.sequence)
    if not found:
        return [note]
    return [
        replace(
            note, partition=origin[0], server=origin[1], instance=origin[2],
            sequences=RangeSet.of(sequences),
        )
        for origin, sequences in sorted(found.items())
    ]  # fmt: skip


class GroundTruthWriter:
    """Appends notes to a file, unbuffered: a kill takes nothing back."""

    def __init__(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self._file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)

    def write(self, notes: Iterable[FaultNote]) -> None:
        lines = [json.dumps(asdict(n) | {"sequences": n.sequences.to_list()}) for n in notes]
        if lines:
            os.write(self._file, ("\n".join(lines) + "\n").encode())

    def close(self) -> None:
        os.close(self._file)


def read_ground_truth(folder: Path) -> list[FaultNote]:
    """Everything that was written to the files of the folder, in the order of time."""
    found = [note for path in sorted(folder.glob("*.sealed")) for note in _read(path)]
    return sorted(found, key=lambda note: note.at)


def _read(path: Path) -> Iterator[FaultNote]:
    for line in path.read_text(encoding="utf-8").splitlines():
        try:
            raw = json.loads(line)
        except ValueError:
            continue
        yield FaultNote(**(raw | {"sequences": RangeSet.from_list(raw["sequences"])}))
