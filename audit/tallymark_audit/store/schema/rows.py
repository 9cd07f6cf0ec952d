"""Between rows and what they mean."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final, Protocol, TypeVar

from tallymark_audit.events.claim_book import Ahead, Reporter
from tallymark_audit.judge.verdicts import CellVerdict, State
from tallymark_audit.model.absurd import AbsurdError
from tallymark_audit.model.cells import Block, CellKey, Copy, Explanation, Summary
from tallymark_audit.model.ranges import RangeSet
from tallymark_audit.model.repeats import levels_from_json, levels_to_json
from tallymark_audit.model.sides import Claim, Observation

MOST_COUNT: Final = 1 << 40
MOST_BYTES: Final = 1 << 60
"""More than a cell can hold; sums of what is below fit the store's numbers."""
Row = dict[str, Any]
Side = TypeVar("Side", Observation, Claim)


class RowLike(Protocol):
    """A row of the store or of JSON: values by column name."""

    def __getitem__(self, name: str, /) -> Any: ...


REPORTER_FIELDS = tuple(name for name in Reporter.__slots__ if name not in ("seen", "ahead"))


def key_from_row(row: RowLike) -> CellKey:
    return CellKey(row["topic"], row["partition"], row["window"], row["server"], row["instance"])


def observation_from_row(row: RowLike) -> Observation:
    """AbsurdError: the row makes no sense; so with the other readers of rows."""
    with _Row("observations", row):
        return _sensible(_observation(row))


def _observation(row: RowLike) -> Observation:
    return Observation(
        key=key_from_row(row),
        count=row["count"],
        bytes=row["bytes"],
        ranges=RangeSet.from_list(row["ranges"]),
        copies=tuple(Copy(*copy) for copy in row["copies"]),
        aborted=RangeSet.from_list(row["aborted"]),
        blocks=_blocks(row["blocks"]),
        rewritten=tuple(
            Block(block[0], block[1], block[3]) for block in row["blocks"] if len(block) > 3
        ),
        latency=tuple(row["latency"]),
        fingerprint=int(row["fingerprint"], 16) if row["fingerprint"] else None,
        first_offset=row["first_offset"],
        last_offset=row["last_offset"],
        min_timestamp=row["min_timestamp"],
        max_timestamp=row["max_timestamp"],
        malformed=row["malformed"],
        skewed=row["skewed"],
    )


def observation_to_row(
    cluster: str, seen_topic: str, seen_partition: int, seen: Observation
) -> Row:
    return {
        "tier": "cluster",
        "cluster": cluster,
        **seen.key._asdict(),
        "seen_topic": seen_topic,
        "seen_partition": seen_partition,
        "count": seen.count,
        "bytes": seen.bytes,
        "ranges": seen.ranges.to_list(),
        "copies": [list(copy) for copy in seen.copies],
        "aborted": seen.aborted.to_list(),
        "blocks": _blocks_with_first(seen),
        "latency": list(seen.latency),
        "fingerprint": "" if seen.fingerprint is None else f"{seen.fingerprint:x}",
        "first_offset": seen.first_offset,
        "last_offset": seen.last_offset,
        "min_timestamp": seen.min_timestamp,
        "max_timestamp": seen.max_timestamp,
        "malformed": seen.malformed,
        "skewed": seen.skewed,
    }


def claim_from_row(row: RowLike) -> Claim:
    """The inverse of :func:`claim_to_row`."""
    with _Row("claims", row):
        return _sensible(_claim(row))


def _claim(row: RowLike) -> Claim:
    return Claim(
        key=key_from_row(row),
        accepted=RangeSet.from_list(row["accepted"]),
        acknowledged=RangeSet.from_list(row["acknowledged"]),
        failed=RangeSet.from_list(row["failed"]),
        in_doubt=RangeSet.from_list(row["in_doubt"]),
        aborted=RangeSet.from_list(row["aborted"]),
        filtered=RangeSet.from_list(row["filtered"]),
        expired=RangeSet.from_list(row["expired"]),
        summary=_summary(row["summary"]),
        blocks=_blocks(row["blocks"]),
        latency=tuple(row["latency"]),
        again=levels_from_json(row["again"]),
        duplicate_count=row["duplicates"],
        unstamped=row["unstamped"],
        malformed=row["malformed"],
        skewed=row["skewed"],
        count=row["count"],
        bytes=row["bytes"],
        min_timestamp=row["min_timestamp"],
        max_timestamp=row["max_timestamp"],
        acks=row["acks"],
    )


def claim_to_row(
    cluster: str, reporter: str, part: int, revision: int, claim: Claim, tier: str = "producer"
) -> Row:
    return {
        "cluster": cluster,
        "reporter": reporter,
        "part": part,
        "revision": revision,
        "tier": tier,
        **claim.key._asdict(),
        "count": claim.count,
        "bytes": claim.bytes,
        "accepted": claim.accepted.to_list(),
        "acknowledged": claim.acknowledged.to_list(),
        "failed": claim.failed.to_list(),
        "in_doubt": claim.in_doubt.to_list(),
        "aborted": claim.aborted.to_list(),
        "filtered": claim.filtered.to_list(),
        "expired": claim.expired.to_list(),
        "summary": _summary_to_json(claim.summary),
        "blocks": _blocks_to_json(claim.blocks),
        "latency": list(claim.latency),
        "again": levels_to_json(claim.again),
        "duplicates": claim.duplicate_count,
        "unstamped": claim.unstamped,
        "malformed": claim.malformed,
        "skewed": claim.skewed,
        "min_timestamp": claim.min_timestamp,
        "max_timestamp": claim.max_timestamp,
        "acks": claim.acks,
    }


def _blocks(raw: Iterable[Sequence[int]]) -> tuple[Block, ...]:
    return tuple(Block(*block[:3]) for block in raw)


def _blocks_to_json(blocks: Iterable[Block]) -> list[list[int]]:
    return [list(block) for block in blocks]


def _blocks_with_first(seen: Observation) -> list[list[int]]:
    first = {block.block: [block.hash] for block in seen.rewritten}
    return [[*block, *first.get(block.block, ())] for block in seen.blocks]


def _summary(raw: Sequence[Any]) -> Summary | None:
    if not raw:
        return None
    accepted, acknowledged, failed, in_doubt, fingerprint = raw
    return Summary(accepted, acknowledged, failed, in_doubt, int(fingerprint, 16))


def _summary_to_json(summary: Summary | None) -> list[Any]:
    """JSON's readers hold 53 bits of a number: the fingerprint is text."""
    return [*summary[:4], f"{summary.fingerprint:x}"] if summary else []


def reporter_from_row(row: RowLike) -> Reporter:
    """The inverse of :func:`reporter_to_row`."""
    fields = {name: row[name] for name in REPORTER_FIELDS}
    try:
        return Reporter(
            **fields,
            seen=RangeSet.from_list(row["seen"]),
            ahead=tuple(_ahead(*mark) for mark in row["ahead"]),
        )
    except Exception as error:
        who = row["reporter"]
        raise AbsurdError(f"the row of reporter {who} makes no sense: {error}") from error


def _ahead(number: int, covers_from: int, group: int, through: int, closed: bool) -> Ahead:
    return Ahead(int(number), int(covers_from), int(group), int(through), bool(closed))


class _Row:
    """Adds to any error the row that it concerns."""

    def __init__(self, table: str, row: RowLike) -> None:
        self._table, self._row = table, row

    def __enter__(self) -> None: ...

    def __exit__(self, _kind: object, error: BaseException | None, _trace: object) -> None:
        if isinstance(error, Exception):
            key = key_from_row(self._row)
            whose = f"of {key.server} {key.instance}" if key.stamped else "without a stamp"
            raise AbsurdError(
                f"a row of {self._table} makes no sense (partition {key.partition}, {whose}): "
                f"{error}"
            ) from error


def _sensible(side: Side) -> Side:
    """The same, if its numbers can be. ValueError: they cannot."""
    if not (0 <= side.count <= MOST_COUNT and 0 <= side.bytes <= MOST_BYTES):
        raise ValueError(f"it counts {side.count} records of {side.bytes} bytes")
    if isinstance(side, Observation):
        said = (side.ranges, side.aborted)
        if side.key.stamped and side.duplicate_count < 0:
            raise ValueError(f"{side.ranges.size} sequences in {side.count} records")
    else:
        said = (side.accepted, side.acknowledged)
    if any(ranges and ranges.first < 0 for ranges in said):
        raise ValueError("it has sequences below 0")
    return side


def reporter_to_row(cluster: str, reporter: Reporter) -> Row:
    return {
        "cluster": cluster,
        **{name: getattr(reporter, name) for name in REPORTER_FIELDS},
        "seen": reporter.seen.to_list(),
        "ahead": [list(mark) for mark in reporter.ahead],
    }


def cell_to_json(cell: CellVerdict) -> Row:
    """A cell of ``verdicts.cells``. ``located``, ``searched`` and ``changed`` are filled in later:
    the offsets of the missing ones upstream, whether upstream was searched for them, and the copies
    downstream in which the contents of a corrupt block differ (``[[partition, offset, sequence],
    ...]``), see :mod:`tallymark_audit.collector.judging.locate`.
    """
    return {
        "topic": cell.key.topic,
        "partition": cell.key.partition,
        "window": cell.key.window,
        "server": cell.key.server,
        "instance": cell.key.instance,
        "state": str(cell.state),
        "claimed": cell.claimed,
        "observed": cell.observed,
        "missing": cell.missing.to_list(),
        "missing_count": cell.missing_count,
        "duplicates": cell.duplicates,
        "repeated": levels_to_json(cell.repeated),
        "copies": [list(copy) for copy in cell.copies],
        "unclaimed": cell.unclaimed.to_list(),
        "unclaimed_count": cell.unclaimed_count,
        "explained": cell.explained.to_list(),
        "explanations": {why.reason: why.ranges.to_list() for why in cell.explanations},
        "corrupt": list(cell.corrupt),
        "reason": cell.reason,
        "located": [],
        "searched": False,
        "changed": [],
    }


def holes_of(row: RowLike) -> list[tuple[int, str, bool]]:
    """``watermarks.holes``; none where they make no sense."""
    raw = row["holes"]
    sound = isinstance(raw, list) and all(isinstance(h, list) and len(h) == 3 for h in raw)
    return [(hole[0], hole[1], hole[2]) for hole in raw] if sound else []


_CELL: Final = frozenset(
    ("partition", "window", "server", "instance", "state", "missing", "located", "reason")
)


def is_cells(raw: Any) -> bool:
    """Whether it may be the cells of a verdict."""
    return isinstance(raw, list) and all(
        isinstance(cell, dict) and cell.keys() >= _CELL for cell in raw
    )


def cell_from_json(raw: RowLike) -> CellVerdict:
    """The inverse of :func:`cell_to_json`."""
    return CellVerdict(
        key=key_from_row(raw),
        state=State(raw["state"]),
        claimed=raw["claimed"],
        observed=raw["observed"],
        missing=RangeSet.from_list(raw["missing"]),
        missing_count=raw["missing_count"],
        duplicates=raw["duplicates"],
        repeated=levels_from_json(_told(raw, "repeated", [])),
        copies=tuple(Copy(*copy) for copy in raw["copies"]),
        unclaimed=RangeSet.from_list(raw["unclaimed"]),
        unclaimed_count=raw["unclaimed_count"],
        explained=RangeSet.from_list(raw["explained"]),
        explanations=_explanations(raw),
        corrupt=tuple(_told(raw, "corrupt", [])),
        reason=raw["reason"],
    )


def _explanations(raw: RowLike) -> tuple[Explanation, ...]:
    told: dict[str, list[int]] = _told(raw, "explanations", {})
    return tuple(Explanation(reason, RangeSet.from_list(flat)) for reason, flat in told.items())


def _told(raw: RowLike, name: str, otherwise: Any) -> Any:
    """What verdicts of before do not have."""
    try:
        return raw[name]
    except KeyError:
        return otherwise
