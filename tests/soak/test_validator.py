"""The check itself: a lost, doubled, disordered or moved message does not get past it."""

from __future__ import annotations

from pathlib import Path

import pytest
from produce_consume_validate import PADDING, Acked, ConfluentWriter, Outcome, Writer, validate

from tallymark.client import Admin
from tallymark.protocol.messages import (
    ProduceRequest,
    ProduceRequestPartition,
    ProduceRequestTopic,
)
from tallymark.protocol.records.batch import encode_batch
from tallymark.testing.broker_thread import BrokerThread
from tallymark.testing.wire import WireClient


def outcome(tmp_path: Path, numbers: list[int], acked: list[tuple[int, int]]) -> Outcome:
    """A topic with these messages of one writer, of which these (number, offset) were
    acknowledged."""
    with BrokerThread(tmp_path) as broker:
        with Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
            admin.create_topic("t", 1, {})
        rows = [(None, b"w:%d:" % number + PADDING, (), 1) for number in numbers]
        partition = ProduceRequestPartition(index=0, records=encode_batch(rows))
        topic = ProduceRequestTopic(name="t", partition_data=[partition])
        with WireClient(broker.bootstrap_servers) as wire:
            told = wire.ask(ProduceRequest(acks=-1, timeout_ms=1000, topic_data=[topic]), 9)
            assert told.responses[0].partition_responses[0].error_code == 0
        writer: Writer = ConfluentWriter("w", broker.bootstrap_servers, "t", keys=0, pause=0)
        writer.sent = 4
        writer.acked = [Acked("w", number, "t", 0, offset, 5.0) for number, offset in acked]
        data = broker.settings.log_dirs[0]
        return validate(broker.bootstrap_servers, "t", [writer], data)


def test_all_is_well(tmp_path: Path) -> None:
    found = outcome(tmp_path, [0, 1, 2], [(0, 0), (1, 1)])
    assert found.problems == []
    assert (found.acked, found.read, found.unacknowledged) == (2, 3, 1)


@pytest.mark.parametrize(
    ("numbers", "acked", "problem"),
    [
        ([0, 1], [(0, 0), (1, 1), (3, 2)], "missing: w 3, acknowledged as offset 2 of t-0"),
        ([0, 2], [(0, 0), (1, 1)], "there now: Seen(writer='w', number=2, partition=0, offset=1)"),
        ([0, 1, 1], [(0, 0)], "read 2 times"),
        ([1, 0], [(0, 1)], "out of order"),
        ([0, 1], [(0, 1)], "acknowledged at 1, read at 0"),
        ([0, 9], [], "never sent"),
    ],
)
def test_what_is_wrong_is_said(
    tmp_path: Path, numbers: list[int], acked: list[tuple[int, int]], problem: str
) -> None:
    problems = outcome(tmp_path, numbers, acked).problems
    assert any(problem in line for line in problems), problems
