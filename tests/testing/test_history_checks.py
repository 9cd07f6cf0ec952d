"""The checker of histories: one forged history for each thing that it must find."""

from __future__ import annotations

import pytest
from checks import CHECKS, anomalies
from operations import Commit, Ended, Operation, Poll, Read, Send
from simulated import transactions_of

from tallymark.testing.simulation.history import History


def sent(*sends: Send, process: str = "p", ended: Ended = Ended.OK) -> Operation:
    return Operation(process, ended, sends)


def polled(*polls: Poll | Commit, process: str = "c", assigned: bool = False) -> Operation:
    return Operation(process, Ended.OK, polls, assigned)


A, B, C = Poll("0", 0, "a"), Poll("0", 1, "b"), Poll("0", 2, "c")
WHOLE = [
    sent(Send("0", "a", 0), Send("0", "b", 1)),
    sent(Send("0", "c", 2)),
    polled(A, B),
    polled(C),
]
"""A history without fault."""

FORGED = {
    "aborted-read": [*WHOLE, sent(Send("0", "d"), ended=Ended.FAILED), polled(Poll("0", 3, "d"))],
    "precommitted-read": [
        *WHOLE,
        Operation("d", Ended.OK, [Poll("0", 3, "d")], at=4.0),
        Operation("p", Ended.OK, [Send("0", "d", 3)], at=6.0, commit_asked=5.0),
    ],
    "G1c": [
        Operation("q", Ended.OK, [Send("0", "a", 0), Poll("1", 0, "x")]),
        Operation("r", Ended.OK, [Poll("0", 0, "a"), Send("1", "x", 0)]),
    ],
    "lost-write": [*WHOLE, sent(Send("0", "d", 3), Send("0", "e", 4)), polled(Poll("0", 4, "e"))],
    "unseen": [*WHOLE, sent(Send("0", "d", 3))],
    "duplicate": [*WHOLE, polled(Poll("0", 3, "a"))],
    "inconsistent-offsets": [*WHOLE, polled(Poll("0", 2, "x"), process="d")],
    "poll-skip": [*WHOLE, polled(A, process="d"), polled(C, process="d")],
    "int-poll-skip": [*WHOLE, polled(A, C, process="d")],
    "nonmonotonic-poll": [*WHOLE, polled(B)],
    "int-nonmonotonic-poll": [*WHOLE, polled(B, A, process="d")],
    "nonmonotonic-send": [
        sent(Send("0", "c", 2)),
        sent(Send("0", "a", 0), Send("0", "b", 1)),
        polled(A, B, C),
    ],
    "int-nonmonotonic-send": [
        sent(Send("0", "b", 1), Send("0", "a", 0)),
        sent(Send("0", "c", 2)),
        polled(A, B, C),
    ],
    "nonmonotonic-commit": [*WHOLE, polled(Commit("0", 3)), polled(Commit("0", 2))],
    "poll-before-commit": [*WHOLE, polled(Commit("0", 2)), polled(B, C, assigned=True)],
}


def test_a_history_without_fault_has_none() -> None:
    assert anomalies(WHOLE) == []


@pytest.mark.parametrize("name", FORGED)
def test_each_fault_is_found_by_name(name: str) -> None:
    found = {each.name for each in anomalies(FORGED[name])}
    assert name in found
    # A value that is lost was not seen, either; nothing else may come along.
    assert found <= {name, "unseen"} if name == "lost-write" else found == {name}


def test_every_check_has_a_forged_history() -> None:
    assert set(FORGED) == set(CHECKS)


def test_a_copy_that_reads_what_was_committed_before_is_no_circle() -> None:
    """A transaction reads its own key's records of others, and others read what it wrote."""
    history = [
        Operation("p", Ended.OK, [Send("0", "a", 0)], at=2.0, commit_asked=1.0),
        Operation("q", Ended.OK, [Poll("0", 0, "a"), Send("1", "b", 0)], at=4.0, commit_asked=3.0),
        Operation("r", Ended.OK, [Poll("1", 0, "b")], at=5.0),
    ]
    assert anomalies(history) == []


def test_transactions_whose_writes_mix_are_no_fault() -> None:
    """G0 is legal in Kafka: nothing orders the writes of two open transactions."""
    history = [
        Operation("p", Ended.OK, [Send("0", "a", 0), Send("1", "b", 1)]),
        Operation("q", Ended.OK, [Send("1", "c", 0), Send("0", "d", 1)]),
        polled(Poll("0", 0, "a"), Poll("0", 1, "d"), Poll("1", 0, "c"), Poll("1", 1, "b")),
    ]
    assert anomalies(history) == []


def test_what_kafka_allows_is_no_fault() -> None:
    """Outcomes in doubt that are there or not, positions that were set, gaps between sends,
    and to read again what was not stored as read."""
    history = [
        *WHOLE,
        sent(Send("0", "d"), ended=Ended.IN_DOUBT),
        sent(Send("0", "e"), ended=Ended.IN_DOUBT),
        polled(Poll("0", 7, "d")),
        polled(A, B, C, assigned=True),
        polled(Poll("0", 7, "d"), Commit("0", 2)),
        polled(C, Poll("0", 7, "d"), Commit("0", 8), Commit("0", 8), assigned=True),
    ]
    assert anomalies(history) == []


def copied(process: str, read: str, wrote: str, ended: Ended = Ended.OK) -> Operation:
    """A transaction of a copier."""
    return Operation(process, ended, [Read(read), Send("copies", wrote)])


CIRCLE = [copied("p", "c", "a"), copied("q", "a", "b"), copied("r", "b", "c")]
"""Each transaction was made of what the next one in the circle has written."""


def test_copies_of_each_other_are_a_circle() -> None:
    """Only reads of processes that wrote nothing were seen, so that no history had a circle."""
    (found,) = [each for each in anomalies(CIRCLE) if each.name == "G1c"]
    assert sorted(found.text.removeprefix("in a circle: ").split(", ")[1:]) == ["p", "q", "r"]


def test_processes_that_read_each_other_in_other_transactions_are_no_circle() -> None:
    """The same processes and values; but what p reads in the end is in a transaction of its own."""
    history = [
        Operation("p", Ended.OK, [Send("copies", "a")]),
        *CIRCLE[1:],
        copied("p", "c", "d"),
    ]
    assert not [each for each in anomalies(history) if each.name == "G1c"]


def test_a_circle_through_a_transaction_that_failed_is_no_circle_but_a_read_of_it() -> None:
    history = [copied("p", "c", "a", Ended.FAILED), *CIRCLE[1:]]
    names = [each.name for each in anomalies(history)]
    assert "G1c" not in names
    assert names.count("aborted-read") == 1


def simulated(*ends: str) -> list[Operation]:
    """Transaction 7 of a writer and 9 of a copier of its value, which ended so; a copy that no
    reader has seen."""
    clock = iter(range(100))
    history = History(lambda: float(next(clock)))
    history.add("w", "writes", 7, "simulated", 0, "<7:1>")
    history.add("w", "asks to commit", 7)
    history.add("copier", "writes", 9, "copied", 0, "<9:2><7:1>")
    history.add("copier", "asks to commit", 9)
    for number, end in zip((7, 9), ends, strict=True):
        history.add("w" if number == 7 else "copier", end, number)
    return transactions_of(history)


def test_what_a_simulated_copier_has_read_is_in_its_transaction() -> None:
    writer, copier = simulated("committed", "committed")
    assert writer.steps == [Send("simulated-0", "<7:1>")]
    assert copier.steps == [Read("<7:1>"), Send("copied-0", "<9:2><7:1>")]
    assert [each.name for each in anomalies((writer, copier))] == ["unseen"]


def test_a_copy_of_what_is_aborted_is_found_though_no_reader_saw_it() -> None:
    (found,) = anomalies(simulated("aborted", "in doubt"))
    assert (found.name, found.text) == ("aborted-read", "<7:1> was read")
