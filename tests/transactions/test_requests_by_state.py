"""Every request of the coordinator, in every state, by clients of both protocols: compared with a
table. A cell has the error, and what the transaction becomes ("-": nothing is written).

The client is the present one (producer id 7, epoch 5), one from before an end that raised the epoch
("before"), a zombie with an older epoch, one with an epoch of the future, or one with another id.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import pytest
from one_transaction import INSIDE, in_state

from tallymark.errors import CODES
from tallymark.protocol.topic_partition import TopicPartition
from tallymark.transactions.adding import decide_add, verify
from tallymark.transactions.ending import decide_end
from tallymark.transactions.initialising import decide_initialise
from tallymark.transactions.inputs import Add, Decision, End, Initialise
from tallymark.transactions.transaction import State, Transaction

OTHER: Final[frozenset[TopicPartition]] = frozenset((("t", 1),))
NAMES: Final = {code: name for name, code in CODES.items()}
SHORT: Final = {
    "EMPTY": State.EMPTY,
    "ONGOING": State.ONGOING,
    "COMMITTING": State.PREPARE_COMMIT,
    "ABORTING": State.PREPARE_ABORT,
    "COMMITTED": State.COMPLETE_COMMIT,
    "ABORTED": State.COMPLETE_ABORT,
}
CLIENTS: Final = {
    "present": (7, 5),
    "before": (7, 4),
    "zombie": (7, 3),
    "future": (7, 6),
    "other id": (8, 5),
}
"""By name: producer id and epoch."""

# Rows: the request and the client's protocol. Columns: the states in the order of SHORT.
BY_THE_PRESENT_CLIENT: Final = {
    "init": "0 EMPTY | 51 ABORTING | 51 - | 51 - | 0 EMPTY | 0 EMPTY",
    "init with epoch": "0 EMPTY | 51 ABORTING | 51 - | 51 - | 0 EMPTY | 0 EMPTY",
    "add inside": "0 ONGOING | 0 - | 51 - | 51 - | 0 ONGOING | 0 ONGOING",
    "add other": "0 ONGOING | 0 ONGOING | 51 - | 51 - | 0 ONGOING | 0 ONGOING",
    "commit v1": "48 - | 0 COMMITTING | 51 - | 48 - | 0 - | 48 -",
    "abort v1": "48 - | 0 ABORTING | 48 - | 51 - | 48 - | 0 -",
    "commit v2": "48 - | 0 COMMITTING | 51 - | 51 - | 48 - | 48 -",
    "abort v2": "0 ABORTING | 0 ABORTING | 51 - | 51 - | 0 ABORTING | 0 ABORTING",
    "verify inside": "120 - | 0 - | 51 - | 51 - | 120 - | 120 -",
    "verify other": "120 - | 120 - | 51 - | 51 - | 120 - | 120 -",
}
BY_THE_CLIENT_BEFORE: Final = {
    # It has not heard that its end, or its own InitProducerId, raised the epoch.
    "init with epoch": "0 EMPTY | 51 ABORTING | 51 - | 51 - | 0 EMPTY | 0 EMPTY",
    "add other": "90 - | 90 - | 51 - | 51 - | 90 - | 90 -",
    "commit v1": "90 - | 90 - | 90 - | 90 - | 90 - | 90 -",
    "commit v2": "90 - | 90 - | 51 - | 48 - | 0 - | 48 -",
    "abort v2": "90 - | 90 - | 48 - | 51 - | 48 - | 0 -",
    "verify inside": "90 - | 90 - | 90 - | 90 - | 90 - | 90 -",
}
BY_A_STRANGER: Final = {
    # Wrong epochs; of another producer id each 90 is a 49.
    "init with epoch": "90 - | 90 - | 51 - | 51 - | 90 - | 90 -",
    "add other": "90 - | 90 - | 51 - | 51 - | 90 - | 90 -",
    "commit v1": "90 - | 90 - | 90 - | 90 - | 90 - | 90 -",
    "abort v2": "90 - | 90 - | 90 - | 90 - | 90 - | 90 -",
    "verify inside": "90 - | 90 - | 90 - | 90 - | 90 - | 90 -",
}


def sent(
    request: str, client: tuple[int, int], transaction: Transaction | None, pending: bool = False
) -> Decision:
    producer_id, epoch = client
    verb, _, kind = request.partition(" ")
    if verb == "init":
        asked = Initialise("id", 30_000, *(client if kind else ()))
        return decide_initialise(
            transaction, asked, pending=pending, new_producer_id=99, now_ms=200
        )
    if verb == "add":
        add = Add(producer_id, epoch, INSIDE if kind == "inside" else OTHER, 2)
        return decide_add(transaction, add, pending=pending, now_ms=200)
    if verb == "verify":
        wanted = INSIDE if kind == "inside" else OTHER
        (code,) = verify(transaction, producer_id, epoch, wanted).values()
        return Decision(code)
    end = End(producer_id, epoch, verb == "commit", 2 if kind == "v2" else 0)
    return decide_end(transaction, end, pending=pending, new_producer_id=99, now_ms=200)


def cells() -> list[tuple[str, str, str, str]]:
    """(client, request, state, expected)"""
    tables = {
        "present": BY_THE_PRESENT_CLIENT,
        "before": BY_THE_CLIENT_BEFORE,
        "zombie": BY_A_STRANGER,
        "future": BY_A_STRANGER,
        "other id": BY_A_STRANGER,
    }
    return [
        (client, request, state, expected.strip())
        for client, table in tables.items()
        for request, row in table.items()
        for state, expected in zip(SHORT, row.split("|"), strict=True)
    ]


@pytest.mark.parametrize(("client", "request_", "state", "expected"), cells())
def test_a_request_in_a_state(client: str, request_: str, state: str, expected: str) -> None:
    before = in_state(SHORT[state])
    decision = sent(request_, CLIENTS[client], before)
    code, becomes = expected.split()
    if client == "other id" and code == "90" and not request_.startswith("init"):
        code = "49"
    assert NAMES[decision.error] == NAMES[int(code)]
    found = "-" if decision.after is None else decision.after.state.name
    assert found == ("-" if becomes == "-" else SHORT[becomes].name)


@pytest.mark.parametrize("request_", [*BY_THE_PRESENT_CLIENT])
def test_an_id_that_is_not_known(request_: str) -> None:
    """Only InitProducerId makes one."""
    decision = sent(request_, (7, 5), None)
    if request_.startswith("init"):
        assert decision.after is not None
        assert (decision.producer_id, decision.producer_epoch) == (99, 0)
    else:
        assert decision == Decision(CODES["INVALID_PRODUCER_ID_MAPPING"])


@pytest.mark.parametrize("state", SHORT)
@pytest.mark.parametrize(
    "request_", ["init", "init with epoch", "add other", "commit v1", "abort v2"]
)
@pytest.mark.parametrize("client", CLIENTS)
def test_while_a_record_is_not_committed_the_answer_is_try_again(
    client: str, request_: str, state: str
) -> None:
    """Before ids and epochs: they may be of what is not committed (KAFKA-18660). Partitions may
    join an open transaction one after the other."""
    decision = sent(request_, CLIENTS[client], in_state(SHORT[state]), pending=True)
    if request_ == "add other" and state == "ONGOING":
        assert decision == sent(request_, CLIENTS[client], in_state(State.ONGOING))
    else:
        assert decision == Decision(CODES["CONCURRENT_TRANSACTIONS"])


def test_nothing_else_of_a_transaction_changes_when_a_partition_joins() -> None:
    before = replace(in_state(State.ONGOING), started_ms=50, unknown_tags=((9, b"x"),))
    decision = sent("add other", (7, 5), before)
    assert decision.after == replace(before, partitions=INSIDE | OTHER, updated_ms=200, version=2)


@pytest.mark.parametrize("state", ["EMPTY", "ONGOING", "COMMITTED", "ABORTED"])
def test_a_request_that_names_no_partition_opens_no_transaction(state: str) -> None:
    """It did: the coordinator then aborted after the timeout what its client knew nothing of, and
    fenced that client."""
    add = Add(7, 5, frozenset(), 0)
    before = in_state(SHORT[state])
    assert decide_add(before, add, pending=False, now_ms=200) == Decision()
