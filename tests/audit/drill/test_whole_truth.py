"""What is expected of a whole drill, hop by hop."""

from pathlib import Path

from tallymark_audit.proof.drill.planning.topology import CONSUMER_HOP, TOPIC, build
from tallymark_audit.proof.drill.truth.books_and_logs import Consumed, Log, Seen, SenderRun
from tallymark_audit.proof.drill.truth.expected import DUPLICATION, LOSS
from tallymark_audit.proof.drill.truth.whole_truth import Gone, Truth, expect_all

ORIGIN = SenderRun(TOPIC, 0, "web-1", "ab")


def log(topic: str, *sequences: int) -> Log:
    found: dict[int, list[Seen]] = {}
    for offset, sequence in enumerate(sequences):
        found.setdefault(sequence, []).append(Seen(0, offset, sequence * 100, 7))
    return {ORIGIN._replace(topic=topic): found}


def test_a_group_owes_the_topic_that_it_reads_and_no_other(tmp_path: Path) -> None:
    """Beside the main topic a seed had one whose segments were lost. The group did not read that,
    and the drill said that all of it was missed."""
    upstream = log(TOPIC, 0, 1, 2) | log("lost-segment", 0, 1)
    given = Consumed(log(TOPIC, 0, 1, 1), {}, {})
    topology = build(tmp_path / "drill", [CONSUMER_HOP])
    try:
        logs: dict[str, Log] = {"aggregate": upstream, "dc1": upstream}
        found = expect_all(Truth([], logs, [], given), topology, 0, Gone([], [], []))
    finally:
        topology.release()
    kinds = {(one.cell.edge, one.cell.topic, one.kind, one.number) for one in found.items}
    assert kinds == {(CONSUMER_HOP, TOPIC, LOSS, 2), (CONSUMER_HOP, TOPIC, DUPLICATION, 1)}
    assert found.messages[CONSUMER_HOP] == 3
