"""What tasks met in their spans, put together: damage, and what expired before it was read."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from tallymark_audit.judge.damage import Damaged
from tallymark_spark_jobs.reconcile.reading.count_tasks import SpanNote
from tallymark_spark_jobs.reconcile.reading.open_transactions import OpenAt
from tallymark_spark_jobs.reconcile.shapes.tallies import ClusterTopic
from tallymark_spark_jobs.source.reading import Damage


def damaged(notes: Sequence[SpanNote]) -> tuple[Damaged, ...]:
    """Where logs cannot be read, with the times of the records around it, of other spans too."""
    spread = {(note.cluster, note.topic) for note in notes if note.spread}
    found: list[Damaged] = []
    for note in notes:
        mine = [one for one in notes if one[:3] == note[:3] and one.messages]
        for offset, end, why, since, until in note.damages:
            since = max([since, *(one.newest for one in mine if one.end <= note.start)])
            if until < 0:
                behind = [one.oldest for one in mine if one.start >= note.end]
                until = min(behind, default=-1)
            until = until if until < 0 else max(since, until)
            place = (note.cluster, note.topic, note.partition, offset)
            found.append(Damaged(*place, why, since, note[:2] in spread, end, until))
    return joined(found)


_OPEN: Final = "is open there, and may be committed or aborted yet"


def open_notes(waits: Iterable[OpenAt]) -> list[SpanNote]:
    """What is not read since a transaction is open, as of a batch that cannot be read: it is not
    known either what stands there and behind it."""
    return [
        SpanNote(
            *one[:3],
            one.offset,
            one.offset,
            damages=(Damage(one.offset, -1, f"{one.whose} {_OPEN}", -1, -1),),
        )
        for one in waits
    ]


def joined(found: Iterable[Damaged]) -> tuple[Damaged, ...]:
    """In the order of the logs; damage that continues in the next span is joined to one."""
    told: list[Damaged] = []
    for one in sorted(found, key=lambda each: each[:4]):
        last = told[-1] if told else None
        if last is not None and last[:3] == one[:3] and last.end >= one.offset:
            told[-1] = last._replace(end=max(last.end, one.end), until=one.until)
        else:
            told.append(one)
    return tuple(told)


def expired(notes: Iterable[SpanNote], as_of: int) -> dict[ClusterTopic, int]:
    """By cluster and topic, the time (ms) before which records had expired when they were to be
    read; ``as_of`` where nothing behind them was read."""
    found: dict[ClusterTopic, int] = {}
    notes = list(notes)
    for note in notes:
        if note.expired:
            later = [
                one.oldest
                for one in notes
                if one[:3] == note[:3] and one.start >= note.end and one.messages
            ]
            left = note.left if note.left >= 0 else min(later, default=as_of)
            place = note.cluster, note.topic
            found[place] = max(found.get(place, 0), left)
    return found
