"""Who comes to a proxy stays there, whatever an answer says about brokers."""

from tallymark.protocol.messages import (
    DescribeClusterResponse,
    DescribeClusterResponseBroker,
    FetchResponse,
    FetchResponseNode,
    FindCoordinatorResponse,
    FindCoordinatorResponseCoordinator,
    MetadataResponse,
    MetadataResponseBroker,
    ProduceResponse,
    ProduceResponseNode,
)
from tallymark_audit.proof.drill.faults.redirect import redirected

GATES = {0: 7000, 1: 7001, 2: 7002}


def test_each_broker_is_at_its_own_gate() -> None:
    """With one gate for all brokers a client would produce to any broker behind it, not to the
    leader."""
    brokers = [MetadataResponseBroker(node_id=one, host="h", port=9000 + one) for one in GATES]
    answer = redirected(MetadataResponse(brokers=brokers), GATES)
    assert {one.node_id: one.port for one in answer.brokers} == GATES
    members = [DescribeClusterResponseBroker(broker_id=one, host="h", port=9) for one in GATES]
    described = redirected(DescribeClusterResponse(brokers=members), GATES)
    assert {one.broker_id: one.port for one in described.brokers} == GATES


def test_a_coordinator_is_at_its_gate_and_none_is_nowhere() -> None:
    assert redirected(FindCoordinatorResponse(node_id=2, port=9002), GATES).port == 7002
    assert redirected(FindCoordinatorResponse(node_id=-1, port=-1), GATES).port == -1
    found = [FindCoordinatorResponseCoordinator(node_id=one, port=9) for one in (1, -1)]
    answer = redirected(FindCoordinatorResponse(coordinators=found), GATES)
    assert [one.port for one in answer.coordinators] == [7001, 9]


def test_a_new_leader_in_the_answer_is_at_its_gate() -> None:
    """The first failover behind a proxy told its producer where the new leader is (KIP-951), and
    from then on the proxy saw nothing of it."""
    produced = ProduceResponse(node_endpoints=[ProduceResponseNode(node_id=1, port=9001)])
    assert [one.port for one in redirected(produced, GATES).node_endpoints] == [7001]
    fetched = FetchResponse(node_endpoints=[FetchResponseNode(node_id=2, port=9002)])
    assert [one.port for one in redirected(fetched, GATES).node_endpoints] == [7002]
