"""What was counted is corrected: logs that were cut or made again, holes that can be read by now,
windows that were counted a second time.

Each function is one transaction of a :class:`~tallymark_audit.collector.ledger.Ledger`. All but
:func:`give_up` first move the position of the partition, if only to where it is. If another
collector has the partition now, that raises PartitionFencedError, and nothing is written. The
position in memory changes after the transaction; cells in memory that may have changed are
forgotten.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Final

from sqlalchemy import Connection

from tallymark.protocol.topic_partition import TopicPartition
from tallymark_audit.collector.counting.comparison import difference, news, rewritten
from tallymark_audit.collector.ledger import Cells, CountedFetch, Ledger
from tallymark_audit.model.sides import Observation
from tallymark_audit.model.time_format import utc
from tallymark_audit.store.counted import counts, damage, positions, recounts
from tallymark_audit.store.counted.damage import UnreadableSpan
from tallymark_audit.store.counted.incidents import TRUNCATED, Incident, add_incident
from tallymark_audit.store.counted.positions import Position

log: Final = logging.getLogger(__name__)


def start_over(ledger: Ledger, known: Position, topic_id: str, now: int) -> None:
    """The topic was deleted and made again: its counts stay, and a new log begins."""
    fresh = Position(known.topic, known.partition, topic_id, generation=known.generation)
    reason = f"the topic was deleted and made again; its log was counted to {known.next_offset}"
    with ledger.store.write() as connection:
        _jump(ledger, connection, known, fresh, "recreated", reason, now)
        counts.detach_offsets(connection, ledger.cluster, *known.place, now)
        damage.end_damage(connection, ledger.cluster, known.place)
    _jumped(ledger, fresh)


def skip(ledger: Ledger, known: Position, to: Position, reason: str, now: int) -> None:
    """The records up to ``to`` are gone before they were counted."""
    with ledger.store.write() as connection:
        _jump(ledger, connection, known, to, "expired", reason, now)
    _jumped(ledger, to)


def go_on(ledger: Ledger, at: Position) -> None:
    """An older program had stopped in the partition; it was read on."""
    with ledger.store.write() as connection:
        positions.move(connection, ledger.cluster, at.next_offset, at)
        damage.end_stop(connection, ledger.cluster, at.place)
    ledger.damaged -= {at.place}


def fill(ledger: Ledger, hole: UnreadableSpan, found: CountedFetch, now: int) -> None:
    """Count a hole that can be read by now: exactly once, also over a crash. ``found``
    does not move the position."""
    place = found.place
    ledger.forget_cells(place)
    with ledger.store.write() as connection:
        known = ledger.positions[place]
        positions.move(connection, ledger.cluster, known.next_offset, known)
        if not damage.fill(connection, ledger.cluster, place, hole):
            return
        ledger.save_report(connection, found, now)
        if found.runs:
            cells = ledger.save_runs(connection, place, found.runs, now)
            windows = counts.windows_of(cells.values())
            counts.touch(connection, ledger.cluster, windows, now)
        incident = Incident(damage.MENDED, "it can be read again", *place, hole.start, hole.end)
        add_incident(connection, ledger.cluster, incident, now)


def give_up(ledger: Ledger, place: TopicPartition, hole: UnreadableSpan) -> None:
    """It is gone from the log, and will never be read."""
    with ledger.store.write() as connection:
        damage.give_up(connection, ledger.cluster, place, hole)


def cut(
    ledger: Ledger,
    known: Position,
    to: Position,
    rebuilt: Cells,
    reason: str,
    now: int,
    holes: Sequence[UnreadableSpan] = (),
) -> None:
    """The log was cut at ``to.next_offset``: cells that reach beyond it are replaced by
    ``rebuilt``, which were counted again up to there, without the ``holes`` that were found."""
    topic, partition = known.place
    with ledger.store.write() as connection:
        _jump(ledger, connection, known, to, TRUNCATED, reason, now)
        counts.replace_beyond(
            connection, ledger.cluster, topic, partition, to.next_offset, rebuilt, now
        )
        damage.end_damage(connection, ledger.cluster, known.place, to.next_offset)
        damage.note_holes(connection, ledger.cluster, known.place, holes, now)
    _jumped(ledger, to)


def recount(
    ledger: Ledger,
    request: recounts.RecountRequest,
    window: int,
    end: int,
    compare: Callable[[list[Observation]], list[Observation]],
    now: int,
) -> None:
    """A window of a partition was counted again up to offset ``end``, excluded: replace the
    cells that ``compare`` returns, and store the progress of the request. If more of the window
    was counted in the meantime, nothing is done. PartitionFencedError: another collector has
    the partition now."""
    known, place = ledger.positions[request.place], request.place
    ledger.forget_cells(place)
    with ledger.store.write() as connection:
        positions.move(connection, ledger.cluster, known.next_offset, known)
        before = counts.cells_of_window(connection, ledger.cluster, *place, window)
        if any(seen.last_offset >= end for seen in before):
            return
        changed = compare(before)
        if changed:
            counts.save_observations(connection, ledger.cluster, *place, changed, now)
        found = news(before, changed)
        if found:
            said = (*difference(before, found), rewritten(found))
            incident = _recounted(place, window, end, before, said, request.job)
            add_incident(connection, ledger.cluster, incident, now)
            log.warning("%s-%s: %s", *place, incident.reason)
        done = replace(request, cells=request.cells + len(found))
        recounts.advance(connection, ledger.cluster, done)


def _jump(
    ledger: Ledger,
    connection: Connection,
    known: Position,
    to: Position,
    kind: str,
    reason: str,
    now: int,
) -> None:
    positions.move(connection, ledger.cluster, known.next_offset, to)
    offsets = sorted((known.next_offset, to.next_offset))
    incident = Incident(kind, reason, known.topic, known.partition, *offsets)
    add_incident(connection, ledger.cluster, incident, now)


def _jumped(ledger: Ledger, to: Position) -> None:
    ledger.positions[to.place] = to
    ledger.forget_cells(to.place)


def _recounted(
    place: TopicPartition,
    window: int,
    end: int,
    before: Iterable[Observation],
    found: tuple[int, int, int],
    job: str,
) -> Incident:
    """What a second count found that the first had otherwise: records fewer, records more, and
    blocks with other contents."""
    first = min((seen.first_offset for seen in before if seen.first_offset >= 0), default=-1)
    words = ("{} records fewer", "{} records more", "other contents in {} blocks")
    told = [text.format(number) for text, number in zip(words, found, strict=True) if number]
    reason = (
        f"window {utc(window)} was counted again for {job}: "
        f"{' and '.join(told) or 'others'} than were counted before"
    )
    return Incident("recounted", reason, *place, first, end, max(1, found[0] + found[1]))
