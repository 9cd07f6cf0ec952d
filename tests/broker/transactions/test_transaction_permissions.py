"""What each request of a transaction asks for: refused without it, not refused with exactly it, by
Kafka's table."""

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
)

from tallymark.broker.security.authorizer import Who
from tallymark.protocol.acls.words import CLUSTER_NAME, Operation, ResourceType
from tallymark.protocol.messages import (
    DescribeTransactionsRequest,
    FindCoordinatorRequest,
    ListTransactionsRequest,
    WriteTxnMarkersRequest,
    WriteTxnMarkersRequestMarker,
    WriteTxnMarkersRequestTopic,
)
from tallymark.protocol.schema import Message

Permission = tuple[Operation, ResourceType, str]
Producer = tuple[int, int]

WRITE_ID: Final = (Operation.WRITE, ResourceType.TRANSACTIONAL_ID, "id")
DESCRIBE_ID: Final = (Operation.DESCRIBE, ResourceType.TRANSACTIONAL_ID, "id")
WRITE_TOPIC: Final = (Operation.WRITE, ResourceType.TOPIC, "t")
DESCRIBE_TOPIC: Final = (Operation.DESCRIBE, ResourceType.TOPIC, "t")
READ_GROUP: Final = (Operation.READ, ResourceType.GROUP, "g")
BROKER: Final = (Operation.CLUSTER_ACTION, ResourceType.CLUSTER, CLUSTER_NAME)
ALL: Final = frozenset((WRITE_ID, DESCRIBE_ID, WRITE_TOPIC, DESCRIBE_TOPIC, READ_GROUP, BROKER))
REFUSALS: Final = {
    ResourceType.TRANSACTIONAL_ID: "TRANSACTIONAL_ID_AUTHORIZATION_FAILED",
    ResourceType.TOPIC: "TOPIC_AUTHORIZATION_FAILED",
    ResourceType.GROUP: "GROUP_AUTHORIZATION_FAILED",
    ResourceType.CLUSTER: "CLUSTER_AUTHORIZATION_FAILED",
}


class Granted:
    """Allows what it holds, and nothing that follows from that."""

    def __init__(self, granted: frozenset[Permission]) -> None:
        self.granted = granted

    def may(
        self, who: Who, operation: Operation, kind: ResourceType, name: str, *, quiet: bool = False
    ) -> bool:
        return (operation, kind, name) in self.granted

    def may_somewhere(self, who: Who, operation: Operation, kind: ResourceType) -> bool:
        return any(each[:2] == (operation, kind) for each in self.granted)


def markers(producer: Producer) -> WriteTxnMarkersRequest:
    topics = [WriteTxnMarkersRequestTopic("t", [0])]
    return WriteTxnMarkersRequest([WriteTxnMarkersRequestMarker(*producer, True, topics, 0)])


def written(answer: Any) -> str:
    return NAMES[answer.markers[0].topics[0].partitions[0].error_code]


def code(answer: Any) -> str:
    return NAMES[answer.error_code]


class Rule(NamedTuple):
    """``needs``: what is asked for; ``told`` finds the error in the answer."""

    request: Callable[[Producer], Message]
    version: int
    told: Callable[[Any], str]
    needs: tuple[Permission, ...]
    then: str = "NONE"


RULES: Final = {
    "InitProducerId": Rule(lambda _: init(), 4, code, (WRITE_ID,), "CONCURRENT_TRANSACTIONS"),
    "AddPartitionsToTxn": Rule(add, 3, lambda got: added(got)[0], (WRITE_ID, WRITE_TOPIC)),
    "AddPartitionsToTxn by a broker": Rule(
        lambda producer: by_broker(producer, verify_only=False),
        5,
        lambda got: code(got) if got.error_code else NAMES[0],
        (BROKER,),
    ),
    "AddPartitionsToTxn to verify": Rule(
        lambda producer: by_broker(producer, verify_only=True), 4, code, (BROKER,)
    ),
    "AddOffsetsToTxn": Rule(add_offsets, 3, code, (WRITE_ID, READ_GROUP)),
    "EndTxn": Rule(lambda producer: end(producer, commit=True), 4, code, (WRITE_ID,)),
    "WriteTxnMarkers": Rule(markers, 1, written, (BROKER,), "NOT_LEADER_OR_FOLLOWER"),
    "FindCoordinator": Rule(
        lambda _: FindCoordinatorRequest("id", 1),
        3,
        code,
        (DESCRIBE_ID,),
        "COORDINATOR_NOT_AVAILABLE",
    ),
    "DescribeTransactions": Rule(
        lambda _: DescribeTransactionsRequest(["id"]),
        0,
        lambda got: code(got.transaction_states[0]),
        (DESCRIBE_ID,),
    ),
}


@pytest.mark.parametrize("name", RULES)
def test_a_request_needs_each_of_its_permissions_and_no_other(name: str) -> None:
    rule = RULES[name]

    async def story() -> None:
        transactions = ReplicatedTransactions()
        await transactions.lead()
        producer = await transactions.opened()
        before, end_ = transactions.shard.state.get("id"), transactions.log.end_offset
        for missing in rule.needs:
            transactions.state.authorizer = Granted(ALL - {missing})
            answer = await transactions.ask(rule.request(producer), rule.version)
            assert rule.told(answer) == REFUSALS[missing[1]]
        assert transactions.shard.state.get("id") == before
        assert transactions.log.end_offset == end_, "nothing is written"
        transactions.state.authorizer = Granted(frozenset(rule.needs))
        answer = await transactions.ask(rule.request(producer), rule.version)
        assert rule.told(answer) == rule.then

    run(story())


def test_only_what_may_be_described_is_listed_and_shown() -> None:
    async def story() -> None:
        transactions = ReplicatedTransactions()
        await transactions.lead()
        await transactions.opened()
        transactions.state.authorizer = Granted(ALL - {DESCRIBE_ID})
        assert (await transactions.ask(ListTransactionsRequest(), 0)).transaction_states == []
        transactions.state.authorizer = Granted(frozenset((DESCRIBE_ID,)))
        (listed,) = (await transactions.ask(ListTransactionsRequest(), 0)).transaction_states
        assert listed.transactional_id == "id"
        describe = DescribeTransactionsRequest(["id"])
        (hidden,) = (await transactions.ask(describe, 0)).transaction_states
        transactions.state.authorizer = Granted(frozenset((DESCRIBE_ID, DESCRIBE_TOPIC)))
        (shown,) = (await transactions.ask(describe, 0)).transaction_states
        assert ([*hidden.topics], [each.topic for each in shown.topics]) == ([], ["t"])

    run(story())
