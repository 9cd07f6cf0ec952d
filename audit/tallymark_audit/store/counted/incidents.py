"""Incidents in the store: what happened to a log or a report that counting cannot mend.

One that repeats itself is one row with a count, and of the same kind there are at most
:data:`MOST_A_DAY` rows a partition and day: a producer that floods a topic with bad records must
not flood the store.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from sqlalchemy import Connection, func, select, update

from tallymark_audit.events.events import Gap
from tallymark_audit.judge.copy_progress import STOPPED
from tallymark_audit.store.schema.tables import incidents

DAY_MS: Final = 86_400_000
MOST_A_DAY: Final = 100
OTHERS: Final = "others like these, whose reasons are not kept"
UNCLEAN_ELECTION: Final = "unclean-election"
GIVEN_UP: Final = "given-up"
"""Kinds of incidents that brokers report: a leader that may lack committed records, and committed
records that a broker has cut."""
_REPAIR: Final = ": tallymark audit repair --tails "
TRUNCATED: Final = "truncated"
"""The kind of a cut that a collector has seen: the log went on at ``from_offset``, and had been
counted to ``to_offset``."""
GAP_TEXT: Final = "{mirror} could not copy these upstream offsets: {reason}"
TRUNCATION: Final = "truncation"
CUT_TEXT: Final = (
    "{mirror} had copied these upstream offsets, and upstream has lost them since (its log was cut)"
)
CORRUPT: Final = "corrupt"
CORRUPT_TEXT: Final = (
    "{mirror} left these upstream offsets out: a batch there cannot be read (its CRC does not "
    "hold, or its records do not decode), or downstream refuses its records"
)
STOPPED_TEXT: Final = (
    "{mirror} stands still at this upstream offset: a batch there cannot be read (its CRC does not "
    "hold, or it does not decode); the other partitions go on"
)


@dataclass(frozen=True, slots=True)
class Incident:
    """What happened to offsets ``from_offset`` up to ``to_offset``, excluded, of a partition.
    ``count``: to how many records."""

    kind: str
    reason: str
    topic: str = ""
    partition: int = -1
    from_offset: int = -1
    to_offset: int = -1
    count: int = 1


def add_incident(connection: Connection, cluster: str, incident: Incident, now_ms: int) -> None:
    """Record it as a row of its own: it happens seldom."""
    row = {name: getattr(incident, name) for name in Incident.__slots__}
    connection.execute(incidents.insert().values(cluster=cluster, at=now_ms, **row))


def fold_incident(connection: Connection, cluster: str, incident: Incident, now_ms: int) -> None:
    """Record an incident that may repeat any number of times: within a day, repetitions are counted
    in one row."""
    today = _of_a_day(cluster, incident, now_ms)
    known = _row_of(connection, today, incident.reason)
    if known is None:
        number = connection.scalar(select(func.count()).select_from(incidents).where(*today)) or 0
        if number >= MOST_A_DAY:
            incident = Incident(
                incident.kind, OTHERS, incident.topic, incident.partition,
                incident.from_offset, incident.to_offset, incident.count,
            )  # fmt: skip
            known = _row_of(connection, today, OTHERS)
    if known is None:
        add_incident(connection, cluster, incident, now_ms)
        return
    connection.execute(
        update(incidents)
        .where(incidents.c.id == known["id"])
        .values(
            count=known["count"] + incident.count,
            to_offset=max(known["to_offset"], incident.to_offset),
        )
    )


def add_gap(connection: Connection, cluster: str, mirror: str, gap: Gap) -> None:
    """Record what a mirror into the cluster could not copy. Mirrors repeat their reports: of a gap
    that is known only the time is new. (A mirror may stand still at the same offset again, of a
    topic that was made again.)"""
    if gap.reason == CORRUPT:
        _add_left_out(connection, cluster, mirror, gap)
        return
    row = {
        "cluster": cluster,
        "topic": gap.topic,
        "partition": gap.partition,
        "from_offset": gap.first_offset,
        "to_offset": gap.last_offset + 1,
        "at": gap.at,
        "kind": "gap",
        "reason": gap_text(mirror, gap.reason),
    }
    same = [incidents.c[name] == value for name, value in row.items() if name != "at"]
    known = connection.execute(select(incidents.c.id, incidents.c.at).where(*same).limit(1)).first()
    if known is None:
        connection.execute(incidents.insert().values(**row))
    elif gap.reason == STOPPED and gap.at > known.at:
        connection.execute(update(incidents).where(incidents.c.id == known.id).values(at=gap.at))


def _add_left_out(connection: Connection, cluster: str, mirror: str, gap: Gap) -> None:
    """What a mirror left out. No verdict depends on it, and the sender of bad records must not
    choose the number of rows. So a day and partition has one row, which counts and grows."""
    why = gap_text(mirror, gap.reason)
    place = gap.topic, gap.partition
    incident = Incident("gap", why, *place, gap.first_offset, gap.last_offset + 1)
    known = _row_of(connection, _of_a_day(cluster, incident, gap.at), why)
    if known is None or known["to_offset"] <= gap.last_offset:  # mirrors repeat themselves
        fold_incident(connection, cluster, incident, gap.at)


def gap_text(mirror: str, reason: str) -> str:
    """The text of an incident about a mirror's gap."""
    text = {STOPPED: STOPPED_TEXT, TRUNCATION: CUT_TEXT, CORRUPT: CORRUPT_TEXT}.get(
        reason, GAP_TEXT
    )
    return text.format(mirror=mirror, reason=reason)


def saved_text(folder: str) -> str:
    """Where a broker has saved what it cut; :func:`folder_of` reads it again."""
    return f"saved in {folder}{_REPAIR}{folder}"


def folder_of(reason: str) -> str:
    """The folder in which a broker has saved what it cut, from the text of the incident; "": it has
    not saved it."""
    return reason.rpartition(_REPAIR)[2] if _REPAIR in reason else ""


def _of_a_day(cluster: str, incident: Incident, now_ms: int) -> list[Any]:
    return [
        incidents.c.cluster == cluster,
        incidents.c.kind == incident.kind,
        incidents.c.topic == incident.topic,
        incidents.c.partition == incident.partition,
        incidents.c.at > now_ms - DAY_MS,
    ]


def _row_of(connection: Connection, today: list[Any], reason: str) -> Any:
    columns = incidents.c.id, incidents.c.count, incidents.c.to_offset
    query = select(*columns).where(*today, incidents.c.reason == reason)
    return connection.execute(query.order_by(incidents.c.id).limit(1)).mappings().first()
