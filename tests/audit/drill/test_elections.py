"""Unclean elections of the drill: what they took, what has to be said of them, and that a wrong or
missing word is noticed. The truth is the dead leader's log, not what brokers report."""

from pathlib import Path
from typing import Any

import pytest
from drill_requests import INSTANCE, SERVER, stamped

from tallymark.protocol.records.batch import encode_batch
from tallymark_audit.proof.drill.faults import kinds
from tallymark_audit.proof.drill.planning.topology import build
from tallymark_audit.proof.drill.scoring.side_scores import (
    SideScore,
    score_elections,
    unexplained,
)
from tallymark_audit.proof.drill.truth.books_and_logs import (
    AckedRecord,
    Book,
    Log,
    Seen,
    SenderRun,
)
from tallymark_audit.proof.drill.truth.elections import UncleanElection
from tallymark_audit.proof.drill.truth.expected import LOSS, Cell, Expectation, Finding
from tallymark_audit.proof.drill.truth.whole_truth import Gone, Truth, expect_all

TOPIC = kinds.UNCLEAN_ELECTION
EDGE = "producer-to-dc1"
SHOWN = SideScore(TOPIC, 20, 20, 20, 0)


def dead_leaders_log(folder: Path, count: int) -> Path:
    path = folder / f"{0:020}.log"
    path.write_bytes(encode_batch([stamped(sequence) for sequence in range(count)]))
    return path


def election(files: tuple[Path, ...] = ()) -> UncleanElection:
    return UncleanElection("dc1", TOPIC, 0, 2, 7, 30, 1, 50, files)


def log_of(*sequences: int) -> Log:
    origin = SenderRun(TOPIC, 0, SERVER, INSTANCE.hex())
    return {origin: {number: [Seen(0, number, 1_000, 0)] for number in sequences}}


def expected(folder: Path, downstream: Log) -> tuple[set[int], set[int]]:
    """Which sequences are LOSS at the producer's edge, and which of them come back by a repair:
    fifty were acknowledged, the dead leader had forty, thirty are still there."""
    book = Book("dc1", TOPIC, SERVER, INSTANCE.hex(), {}, {0: 50})
    book.acked |= {(0, number): AckedRecord(1_000, 0) for number in range(50)}
    logs: dict[str, Log] = {"dc1": log_of(*range(30)), "dc2": {}, "aggregate": downstream}
    topology = build(folder / "drill", [], brokers=3)
    try:
        gone = Gone([], [], [], [election((dead_leaders_log(folder, 40),))])
        found = expect_all(Truth([book], logs, [], None), topology, 0, gone)
    finally:
        topology.release()
    at_producer = {one for one in found.items if one.cell.edge == EDGE and one.kind == LOSS}
    assert found.saved <= at_producer
    return {one.number for one in at_producer}, {one.number for one in found.saved}


def test_what_the_dead_leader_had_comes_back_and_nothing_else(tmp_path: Path) -> None:
    lost, saved = expected(tmp_path, log_of(*range(30)))
    assert lost == set(range(30, 50))
    assert saved == set(range(30, 40))


def test_what_was_mirrored_before_is_not_brought_back(tmp_path: Path) -> None:
    """The mirror would copy it a second time."""
    _, saved = expected(tmp_path, log_of(*range(35)))
    assert saved == set(range(35, 40))


def test_a_repair_may_refuse_what_need_not_be_found() -> None:
    """A topic was deleted just after records had come: whether they are called lost is open. Where
    they were, the repair refused them, and the drill held that against it."""
    lost = Finding(Cell("dc1-to-aggregate", "t", 0, 0, SERVER, "ab"), LOSS, 1)
    assert not Expectation(items={lost}).may_be_refused
    assert Expectation(items={lost}, gone={lost}).may_be_refused
    assert Expectation(items={lost}, young={lost.who}).may_be_refused
    at_producer = lost._replace(cell=lost.cell._replace(edge=EDGE))
    assert Expectation(items={at_producer}).may_be_refused
    assert not Expectation(items={at_producer}, saved={at_producer}).may_be_refused


def incident(kind: str, reason: str, **other: Any) -> dict[str, Any]:
    place = {"cluster": "dc1", "topic": TOPIC, "partition": 0, "from_offset": 30}
    return place | {"to_offset": 50, "kind": kind, "reason": reason} | other


ELECTED = incident(
    "unclean-election", "broker 2 leads from leader epoch 7 on, elected although", to_offset=-1
)
CUT = incident(
    "given-up",
    "broker 1 cut these offsets (epochs: 6 from 20) for the leader of epoch 7; its high "
    "watermark was 50; saved in /x",
)


def test_an_election_has_two_incidents_with_brokers_epoch_and_offsets() -> None:
    score = score_elections(SHOWN, [election()], [ELECTED, CUT])
    assert score.perfect
    assert (score.expected, score.found) == (22, 22)
    assert unexplained([election()], [ELECTED, CUT]) == []


@pytest.mark.parametrize(
    "wrong",
    [
        ELECTED | {"from_offset": 29},
        ELECTED | {"reason": "broker 0 leads from leader epoch 7 on, elected although"},
        ELECTED | {"reason": "broker 2 leads from leader epoch 71 on, elected although"},
        CUT | {"to_offset": 49},
        CUT | {"topic": "orders"},
        CUT | {"reason": CUT["reason"].replace("saved in /x", "NOT saved: the disk is full")},
        CUT | {"reason": CUT["reason"].replace("broker 1", "broker 0")},
    ],
)
def test_an_incident_that_is_wrong_in_anything_does_not_count(wrong: dict[str, Any]) -> None:
    right = CUT if wrong["kind"] == "unclean-election" else ELECTED
    score = score_elections(SHOWN, [election()], [right, wrong])
    assert not score.perfect
    assert score.found == 21
    (told,) = unexplained([election()], [right, wrong])
    assert wrong["kind"] in told


def test_records_that_are_given_up_without_an_election_are_a_problem() -> None:
    """Whatever a broker cuts below its high watermark without one is a fault of replication."""
    assert len(unexplained([], [CUT, ELECTED, incident("truncated", "")])) == 2
