"""Every version of every request of a transactional producer, in every state, by the present client
and by one whose epoch is not that of the id: before KIP-588 the latter's code is another one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, NamedTuple

import pytest
from replicated_shard import run
from replicated_transactions import (
    NAMES,
    ReplicatedTransactions,
    add,
    add_offsets,
    added,
    by_broker,
    end,
    init,
    verified,
)

from tallymark.protocol.schema import Message

Producer = tuple[int, int]
STATES: Final = (
    "Empty",
    "Ongoing",
    "PrepareCommit",
    "PrepareAbort",
    "CompleteCommit",
    "CompleteAbort",
)
JOINS: Final = "0 0 51 51 0 0"
SHUT_OUT: Final = "90 90 51 51 90 90"


class Asked(NamedTuple):
    """A request, its versions, and the codes in the order of STATES. ``fenced_since``: the version
    from which PRODUCER_FENCED, 90, is not INVALID_PRODUCER_EPOCH, 47."""

    make: Callable[[Producer], Message]
    read: Callable[[Any], str]
    versions: range
    fenced_since: int
    present: str
    stranger: str


def _code(answer: Any) -> str:
    return NAMES[answer.error_code]


def _first(answer: Any) -> str:
    (name,) = added(answer)
    return name


ASKED: Final = {
    "InitProducerId": Asked(init, _code, range(3, 6), 4, "0 51 51 51 0 0", SHUT_OUT),
    "AddPartitionsToTxn": Asked(add, _first, range(4), 2, JOINS, SHUT_OUT),
    "AddPartitionsToTxn, added by a broker": Asked(
        lambda producer: by_broker(producer, verify_only=False),
        verified,
        range(4, 6),
        0,
        JOINS,
        SHUT_OUT,
    ),
    "AddPartitionsToTxn, verified": Asked(
        lambda producer: by_broker(producer, verify_only=True),
        verified,
        range(4, 6),
        0,
        "120 0 51 51 120 120",
        "90 90 90 90 90 90",
    ),
    "AddOffsetsToTxn": Asked(add_offsets, _code, range(5), 2, JOINS, SHUT_OUT),
    "EndTxn, commit": Asked(
        lambda producer: end(producer, commit=True),
        _code,
        range(5),
        2,
        "48 0 51 48 0 48",
        "90 90 90 90 90 90",
    ),
    "EndTxn, abort": Asked(
        lambda producer: end(producer, commit=False),
        _code,
        range(5),
        2,
        "48 0 48 51 48 0",
        "90 90 90 90 90 90",
    ),
    "EndTxn, commit of TV2": Asked(
        lambda producer: end(producer, commit=True),
        _code,
        range(5, 6),
        2,
        "48 0 51 51 48 48",
        "90 90 90 90 90 90",
    ),
    "EndTxn, abort of TV2": Asked(
        lambda producer: end(producer, commit=False),
        _code,
        range(5, 6),
        2,
        "0 0 51 51 0 0",
        "90 90 90 90 90 90",
    ),
}


@pytest.mark.parametrize("state", STATES)
@pytest.mark.parametrize("name", ASKED)
@pytest.mark.parametrize("who", ["present", "stranger"])
def test_a_request_in_each_of_its_versions(name: str, state: str, who: str) -> None:
    asked = ASKED[name]
    row = asked.present if who == "present" else asked.stranger
    wanted = int(row.split()[STATES.index(state)])

    async def story() -> None:
        for version in asked.versions:
            transactions = ReplicatedTransactions()
            await transactions.lead()
            producer_id, epoch = await transactions.bring(state)
            epoch += 0 if who == "present" else 5
            answer = await transactions.ask(asked.make((producer_id, epoch)), version)
            old = wanted == 90 and version < asked.fenced_since
            expected = NAMES[47 if old else wanted]
            assert asked.read(answer) == expected, version
            transactions.lose()

    run(story())


@pytest.mark.parametrize("name", ASKED)
def test_a_broker_that_is_not_the_coordinator_says_so_in_each_version(name: str) -> None:
    asked = ASKED[name]

    async def story() -> None:
        for version in asked.versions:
            transactions = ReplicatedTransactions()
            answer = await (await transactions.start(asked.make((7, 0)), version))
            assert asked.read(answer) == "NOT_COORDINATOR", version

    run(story())
