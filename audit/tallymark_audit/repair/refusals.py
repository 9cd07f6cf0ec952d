"""The texts that say why something is not copied, and what to do instead."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice
from typing import Final

from tallymark_audit.collector.judging.locate import OffsetRange
from tallymark_audit.judge.verdicts import CellVerdict, State
from tallymark_audit.model.cells import Edge
from tallymark_audit.repair.elsewhere import Elsewhere
from tallymark_audit.repair.items import MissingRun
from tallymark_audit.store.schema.rows import Row

NAMED: Final = 5
"""Places named in one text."""


def refusal(
    edge: Edge,
    cell: CellVerdict,
    within: Sequence[OffsetRange],
    places: Sequence[MissingRun],
    elsewhere: Sequence[Elsewhere] = (),
) -> str:
    """Why the missing messages of a cell cannot be copied; ``""``: they can. ``elsewhere``: which
    messages of a producer are in clusters that are mirrored from the one that lacks them."""
    key = cell.key
    if not key.stamped:
        return "records without a stamp are counted, not named: which ones are missing is not known"
    if edge.kind == "producer":
        return _of_producer(edge, cell, elsewhere)
    if edge.kind == "consumer":
        return f"a group is not copied to: let it read {_offsets(edge, key.topic, within, places)}"
    if edge.kind == "lake":
        return _of_lake(edge, cell, within, places)
    if not cell.missing:
        return "the cell had more ranges than are kept: its messages are counted, not named"
    if not cell.missing - cell.expired:
        return (
            f"{edge.upstream} had deleted sequences {cell.missing} before they were copied "
            "(expired), so they cannot be copied; retention.ms there is shorter than the time for "
            "which the mirror was away"
        )
    return "" if within else f"where they are in {edge.upstream} is not known"


def _of_lake(
    edge: Edge,
    cell: CellVerdict,
    within: Sequence[OffsetRange],
    places: Sequence[MissingRun],
) -> str:
    if cell.missing and not cell.missing - cell.expired:
        return (
            f"{edge.upstream} had deleted sequences {cell.missing} before they were loaded "
            "(expired), so they cannot be loaded; retention.ms there is shorter than the time "
            "between two loads"
        )
    if cell.missing and places:
        return ""
    return f"run the load job once more for {_offsets(edge, cell.key.topic, within, places)}"


def _of_producer(edge: Edge, cell: CellVerdict, elsewhere: Sequence[Elsewhere]) -> str:
    key, left = cell.key, cell.missing
    told: list[str] = []
    for held in elsewhere:
        left = left - held.sequences
        told.append(
            f"{edge.downstream} has lost sequences {held.sequences}, {held.cluster} holds them: "
            f"{'' if held.exactly else 'within '}{_spans(held.topic, held.places)}"
        )
    if told:
        told.append("do not send those again, that would make copies there; read them there")
    if left or not told:
        told.append(
            f"the claim is all there is of them: {key.server} (run {key.instance}) was told that "
            f"sequences {left or cell.missing_count} of partition {key.partition} are "
            f"safe, and no log has them; send them again from where {key.server} had them"
        )
    return "; ".join(told)


def left_alone(state: State, cells: Sequence[Row]) -> str:
    """Why a window in this state is not repaired."""
    if state is State.DUPLICATION:
        copies = [copy for cell in cells for copy in cell["copies"]]
        if not copies and any(cell.get("repeated") for cell in cells):
            return (
                "a group has read these messages twice, which cannot be undone: the evidence names "
                "the sequences"
            )
        where = ", ".join(f"{partition}:{offset}" for partition, offset, _ in copies[:NAMED])
        return (
            "a record cannot be taken out of a log: consumers tell a copy by its stamp "
            f"(partition:offset {where}{', ...' if len(copies) > NAMED else ''})"
        )
    blocks = [
        f"{cell['server']} {cell['instance']} blocks {', '.join(map(str, cell['corrupt'][:NAMED]))}"
        for cell in cells
        if cell.get("corrupt")
    ]
    return (
        "both sides have these records, with different contents: counting does not tell which is "
        f"right, and a copy would be added beside the wrong one ({'; '.join(blocks[:NAMED])})"
    )


def _offsets(
    edge: Edge, topic: str, within: Sequence[OffsetRange], places: Sequence[MissingRun]
) -> str:
    """Where to read again: exactly, or at least within which offsets."""
    exact = [(place.partition, place.first_offset, place.last_offset) for place in places]
    some = exact or [(stretch.partition, stretch.first, stretch.last) for stretch in within]
    if not some:
        return f"{edge.upstream} {topic} again from before the window"
    return f"{edge.upstream} {'' if exact else 'within '}{_spans(topic, some)}"


def _spans(topic: str, some: Sequence[tuple[int, int, int]]) -> str:
    told = [f"{topic}-{part} offsets {first}-{last}" for part, first, last in islice(some, NAMED)]
    more = f" and {len(some) - NAMED} more stretches" if len(some) > NAMED else ""
    return f"{', '.join(told)}{more}"
