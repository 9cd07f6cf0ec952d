"""Compare a second count of a cell with the first. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from tallymark_audit.model.cells import Block, CellKey
from tallymark_audit.model.sides import Observation


def changed_cells(
    before: Iterable[Observation],
    again: Mapping[CellKey, Observation],
    log_start: int,
    mixed: bool = False,
) -> list[Observation]:
    """The cells of a window that differ from their first count, as they are now.

    ``before`` are all of the window in one partition, ``again`` what the log has of them now, from
    ``log_start`` on. Records below that may have been deleted by retention or on request, so a cell
    that begins there stays as it was counted. So does a ``detached`` cell, whose first offset is
    -1: an earlier log had a part of it. ``mixed``: records of the window were counted in a cell of
    many (:attr:`CellKey.overflow`), so those of cells that are not known are counted there, which
    stays as it is."""
    known = {seen.key: seen for seen in before}
    changed = [
        now
        for key, seen in known.items()
        if seen.first_offset >= log_start
        and not key.overflow
        and (now := _as_now(seen, again.get(key) or Observation(key))) != seen
    ]
    if mixed:
        return changed
    return changed + [seen for key, seen in sorted(again.items()) if key not in known]


def _as_now(before: Observation, again: Observation) -> Observation:
    """The cell as counted again. The offsets stay those between which it was ever seen, so that a
    later count looks there for records that are back. Only the first count knows how late records
    arrived."""
    blocks = again.blocks or _still_true(before, again)
    return replace(
        again,
        latency=before.latency,
        skewed=min(before.skewed, again.count),
        blocks=blocks,
        rewritten=_rewritten(before, blocks),
        first_offset=before.first_offset,
        last_offset=before.last_offset,
        min_timestamp=again.min_timestamp if again.count else before.min_timestamp,
        max_timestamp=again.max_timestamp if again.count else before.max_timestamp,
    )


def _still_true(before: Observation, again: Observation) -> tuple[Block, ...]:
    """What is known of the contents, where this count did not look at them."""
    same = again.count == before.count and again.ranges == before.ranges
    return before.blocks if same else ()


def _rewritten(before: Observation, blocks: Iterable[Block]) -> tuple[Block, ...]:
    """The blocks that have as many records as at first, with other contents: each as it was first.
    So the change shows in every later count, until the contents are the first ones again."""
    first = {block.block: block for block in (*before.blocks, *before.rewritten)}
    return tuple(
        known
        for now in blocks
        if (known := first.get(now.block, now)).records == now.records and known.hash != now.hash
    )


def difference(before: Iterable[Observation], now: Iterable[Observation]) -> tuple[int, int]:
    """How many records fewer and how many more there are in the cells that are in ``now``."""
    known = {seen.key: seen for seen in before}
    fewer = more = 0
    for seen in now:
        old = known.get(seen.key) or Observation(seen.key)
        if seen.key.stamped and seen.fingerprint is None and old.fingerprint is None:
            fewer += (old.ranges - seen.ranges).size
            more += (seen.ranges - old.ranges).size
            fewer += max(0, old.duplicate_count - seen.duplicate_count)
            more += max(0, seen.duplicate_count - old.duplicate_count)
        else:
            fewer += max(0, old.count - seen.count)
            more += max(0, seen.count - old.count)
    return fewer, more


def news(before: Iterable[Observation], changed: Iterable[Observation]) -> list[Observation]:
    """Those of the ``changed`` cells whose records differ. The others only got their hashes now:
    they were counted before ``content_check`` was switched on."""
    known = {seen.key: seen for seen in before}
    return [
        now
        for now in changed
        if (old := known.get(now.key)) is None or replace(now, blocks=old.blocks) != old
    ]


def rewritten(now: Iterable[Observation]) -> int:
    """How many blocks hold other contents than at first."""
    return sum(len(seen.rewritten) for seen in now)
