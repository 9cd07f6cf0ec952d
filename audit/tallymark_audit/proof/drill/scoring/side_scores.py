"""What was found of what happened beside the main traffic, one line a kind. Pure.

The faults with a topic of their own are scored by the findings in it. Others have no findings in
verdicts: of an event with a turned bit there has to be an incident, of a log that cannot be read
windows that are UNKNOWN and say where, of a member of a group that is gone with its journal a
window that it holds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from tallymark_audit.judge.states import State
from tallymark_audit.proof.drill.faults import kinds
from tallymark_audit.proof.drill.planning.topology import CONSUMER_HOP
from tallymark_audit.proof.drill.scoring.compare import Comparison
from tallymark_audit.proof.drill.truth.books_and_logs import Unreadable
from tallymark_audit.proof.drill.truth.elections import UncleanElection
from tallymark_audit.proof.drill.truth.expected import DUPLICATION, Expectation, Finding

UNCLEAN: Final = "unclean-election"
GIVEN_UP: Final = "given-up"
"""The kinds of incidents that say of a log that it may lack, or has cut, committed records."""
BAD_EVENT: Final = "bad-event"
"""The kind of incident that says of an event that it is not believed."""


@dataclass(frozen=True, slots=True)
class SideScore:
    """One kind: it was ``done`` so many times (messages, events, topics), of ``expected`` findings
    ``found`` were made, and ``wrong`` that are none."""

    kind: str
    done: int
    expected: int
    found: int
    wrong: int

    @property
    def perfect(self) -> bool:
        return self.expected == self.found and not self.wrong


def score_items(
    kind: str, done: int, expectation: Expectation, comparison: Comparison
) -> SideScore:
    """Of a kind that shows in verdicts."""
    expected = [item for item in expectation.items if _is_of(item, kind)]
    missed = [item for item in comparison.missed if _is_of(item, kind)]
    wrong = [item for item in comparison.invented if _is_of(item, kind)]
    return SideScore(kind, done, len(expected), len(expected) - len(missed), len(wrong))


def _is_of(item: Finding, kind: str) -> bool:
    if kind in kinds.CONSUMER_KILLS:
        return item.cell.edge == CONSUMER_HOP and item.kind == DUPLICATION
    return item.cell.topic == kind


def score_events(done: int, marked: Mapping[str, int], incidents: Iterable[Any]) -> SideScore:
    """Events with turned bits, ``marked`` in each cluster's audit topic, against the incidents."""
    told = dict.fromkeys(marked, 0)
    for row in incidents:
        if row["kind"] == BAD_EVENT:
            told[row["cluster"]] = told.get(row["cluster"], 0) + row["count"]
    found = sum(min(count, told[cluster]) for cluster, count in marked.items())
    wrong = sum(max(0, count - marked.get(cluster, 0)) for cluster, count in told.items())
    return SideScore(kinds.FLIP_EVENTS, done, sum(marked.values()), found, wrong)


def score_unreadable(
    places: Sequence[Unreadable], rows: Sequence[Mapping[str, Any]], incidents: Sequence[Any]
) -> SideScore:
    """Each window that touches the damage has to be UNKNOWN, and one incident a place has to say
    which partition, which offset, and that it is the CRC."""
    expected = found = 0
    for place in places:
        held = [row for row in rows if place.covers(row["edge"], row["topic"], row["window"])]
        named = [any(_names(place, reason) for reason in row["reasons"]) for row in held]
        unknown = [row["state"] == State.UNKNOWN for row in held]
        told = any(
            (row["cluster"], row["topic"], row["partition"], row["from_offset"]) == place[:4]
            and "CRC" in row["reason"]
            for row in incidents
        )
        expected += max(1, len(held)) + 1
        found += sum(one and other for one, other in zip(named, unknown, strict=True)) + told
    return SideScore(kinds.BROKEN_CRC, len(places), expected, found, 0)


def score_elections(
    shown: SideScore, elections: Sequence[UncleanElection], incidents: Iterable[Any]
) -> SideScore:
    """``shown``: what verdicts show of the kind. Of each election there have to be two incidents
    more: that it was unclean, and that the leader before has cut its log."""
    told = list(incidents)
    found = sum(any(wanted(row) for row in told) for one in elections for wanted in _told_by(one))
    return SideScore(
        shown.kind,
        shown.done,
        shown.expected + 2 * len(elections),
        shown.found + found,
        shown.wrong,
    )


def unexplained(elections: Sequence[UncleanElection], incidents: Iterable[Any]) -> list[str]:
    """Incidents of replication that no election of the drill has led to."""
    return [
        f"{row['kind']} of {row['topic']}-{row['partition']} of {row['cluster']}: {row['reason']}"
        for row in incidents
        if row["kind"] in (UNCLEAN, GIVEN_UP)
        and not any(wanted(row) for one in elections for wanted in _told_by(one))
    ]


def _told_by(one: UncleanElection) -> tuple[Callable[[Any], bool], ...]:
    def is_here(row: Any, kind: str) -> bool:
        place = row["cluster"], row["topic"], row["partition"], row["from_offset"]
        return row["kind"] == kind and place == (
            one.cluster, one.topic, one.partition, one.from_offset
        )  # fmt: skip

    def is_unclean(row: Any) -> bool:
        leads = f"broker {one.broker} leads from leader epoch {one.leader_epoch} on"
        return is_here(row, UNCLEAN) and leads in row["reason"]

    def is_given_up(row: Any) -> bool:
        cut = f"broker {one.loser} cut these offsets"
        return (
            is_here(row, GIVEN_UP)
            and row["to_offset"] == one.to_offset
            and cut in row["reason"]
            and f"for the leader of epoch {one.leader_epoch};" in row["reason"]
            and "saved in " in row["reason"]
        )

    return is_unclean, is_given_up


def _names(place: Unreadable, reason: str) -> bool:
    parts = (f"{place.topic}-{place.partition}", str(place.offset), "CRC")
    return all(part in reason for part in parts)
