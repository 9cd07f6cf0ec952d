"""Why something is not copied, and what to do instead. Texts only."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice
from typing import TYPE_CHECKING, Final

from tallymark_audit.cells import Edge
from tallymark_audit.judge.verdicts import CellVerdict, State
from tallymark_audit.locate import Stretch

if TYPE_CHECKING:
    from tallymark_audit.repair.plan import Place
    from tallymark_audit.store.rows import Row

NAMED: Final = 5
"""Places named in one text."""


def refusal(
    edge: Edge, cell: CellVerdict, within: Sequence[Stretch], places: Sequence[Place]
) -> str:
    """Why the missing messages of a cell cannot be copied; ``""``: they can."""
    key = cell.key
    if not key.stamped:
        return "records without a stamp are counted, not named: nobody can tell which are missing"
    if edge.kind == "producer":
        return (
            f"the claim is all there is of them: {key.server} (run {key.instance}) was told that "
            f"sequences {cell.missing or cell.missing_count} of partition {key.partition} are "
            f"safe, and no log has them; send them again from where {key.server} had them"
        )
    if edge.kind == "consumer":
        return f"a group is not copied to: let it read {_offsets(edge, key.topic, within, places)}"
    if edge.kind == "lake":
        return f"run the load job once more for {_offsets(edge, key.topic, within, places)}"
    if not cell.missing:
        return "the cell had more ranges than are kept: its messages are counted, not named"
    return "" if within else f"nobody knows where in {edge.upstream} they lie"


def left_alone(state: State, cells: Sequence[Row]) -> str:
    """Why a window that shows this is not repaired."""
    if state is State.DUPLICATION:
        copies = [copy for cell in cells for copy in cell["copies"]]
        if not copies and any(cell.get("repeated") for cell in cells):
            return "what was read twice was read twice: the evidence names the sequences"
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
        "both sides have these records, with different contents: nobody can tell by counting which "
        f"is right, and a copy would stand beside the wrong one ({'; '.join(blocks[:NAMED])})"
    )


def _offsets(edge: Edge, topic: str, within: Sequence[Stretch], places: Sequence[Place]) -> str:
    """Where to read again: exactly, or at least within which offsets."""
    exact = [(place.partition, place.first_offset, place.last_offset) for place in places]
    some = exact or [(stretch.partition, stretch.first, stretch.last) for stretch in within]
    if not some:
        return f"{edge.upstream} {topic} again from before the window"
    told = [f"{topic}-{part} offsets {first}-{last}" for part, first, last in islice(some, NAMED)]
    more = f" and {len(some) - NAMED} more stretches" if len(some) > NAMED else ""
    return f"{edge.upstream} {'' if exact else 'within '}{', '.join(told)}{more}"
