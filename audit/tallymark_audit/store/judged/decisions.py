"""Write what people decided."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from sqlalchemy import Connection, update

from tallymark.trail import Doer
from tallymark_audit.store.schema.rows import Row
from tallymark_audit.store.schema.tables import decisions

LONGEST_NAME = 255
LONGEST_NOTE = 2000


class About(NamedTuple):
    """What a decision is about, as the columns of the table say it."""

    edge: str = ""
    topic: str = ""
    window: int = -1
    window_end: int = -1
    subject: str = ""


_NOTHING: Final = About()


@dataclass(frozen=True, slots=True)
class Decision:
    """What the ``doer`` decided; ``detail`` is an object, see the table."""

    doer: Doer
    action: str
    about: About = _NOTHING
    note: str = ""
    outcome: str = "done"
    detail: Row = field(default_factory=dict[str, Any])
    finished: bool = True


def note_decision(connection: Connection, at: int, decision: Decision) -> int:
    """Add a decision made at that time (ms); its number. Texts are cut where they are too long for
    the store."""
    about, doer = decision.about, decision.doer
    values: dict[str, Any] = {
        "at": at,
        "finished_at": at if decision.finished else 0,
        "who": doer.who[:LONGEST_NAME],
        "host": doer.host[:LONGEST_NAME],
        "process": doer.process[:LONGEST_NAME],
        "action": decision.action,
        **about._asdict(),
        "subject": about.subject[:LONGEST_NAME],
        "note": decision.note[:LONGEST_NOTE],
        "outcome": decision.outcome,
        "detail": decision.detail,
    }
    found = connection.execute(decisions.insert().values(**values)).inserted_primary_key
    assert found is not None
    return int(found[0])


def finish_decision(
    connection: Connection, number: int, at: int, outcome: str, detail: Row
) -> None:
    """How a decision that took time has ended."""
    connection.execute(
        update(decisions)
        .where(decisions.c.id == number)
        .values(finished_at=at, outcome=outcome[:LONGEST_NAME], detail=detail)
    )


def end_abandoned(connection: Connection, process: str, at: int, error: str) -> None:
    """What that process began and did not end, since it ended itself before."""
    connection.execute(
        update(decisions)
        .where(decisions.c.process == process, decisions.c.finished_at == 0)
        .values(finished_at=at, outcome="broke off", detail={"error": error})
    )
