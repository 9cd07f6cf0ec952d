"""Metadata for those who may not see everything, and by the listener that they came in by."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
from cluster_members import state_of

from tallymark.broker.metadata.image import BrokerImage, PartitionImage
from tallymark.broker.security.authorizer import OPERATIONS_OF, Who
from tallymark.broker.settings.listeners import Endpoint
from tallymark.errors import CODES
from tallymark.protocol.acls.words import CLUSTER_NAME, Operation, ResourceType
from tallymark.protocol.messages import MetadataRequest, MetadataRequestTopic, MetadataResponse
from tallymark.testing.broker_thread import BrokerThread
from tallymark.testing.wire import WireClient

UNKNOWN = -(2**31)
Rule = Callable[[Operation, ResourceType, str], bool]


class Rules:
    """May do what ``rule`` says."""

    def __init__(self, rule: Rule) -> None:
        self._rule = rule

    def may(
        self, who: Who, operation: Operation, kind: ResourceType, name: str, *, quiet: bool = False
    ) -> bool:
        return self._rule(operation, kind, name)

    def may_somewhere(self, who: Who, operation: Operation, kind: ResourceType) -> bool:
        return self._rule(operation, kind, "")


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerThread]:
    with BrokerThread(tmp_path_factory.mktemp("broker"), broker_rack="rack-7") as broker:
        ask(broker, "open", "secret", create=True)
        yield broker


@pytest.fixture
def rules(running: BrokerThread) -> Iterator[Callable[[Rule], None]]:
    """Puts a rule in force for one test."""
    state = state_of(running)
    before = state.authorizer

    def put(rule: Rule) -> None:
        state.authorizer = Rules(rule)

    yield put
    state.authorizer = before


def ask(
    broker: BrokerThread, *names: str, version: int = 12, create: bool = False, **rest: bool
) -> MetadataResponse:
    topics = [MetadataRequestTopic(name=name) for name in names]
    request = MetadataRequest(topics=topics, allow_auto_topic_creation=create, **rest)
    with WireClient(broker.bootstrap_servers) as wire:
        return wire.ask(request, version)


def everything(broker: BrokerThread, version: int = 12) -> list[str | None]:
    with WireClient(broker.bootstrap_servers) as wire:
        return [t.name for t in wire.ask(MetadataRequest(topics=None), version).topics]


def may_see_open(operation: Operation, kind: ResourceType, name: str) -> bool:
    return name == "open" and operation is Operation.DESCRIBE


def test_what_may_not_be_described_is_not_shown(
    running: BrokerThread, rules: Callable[[Rule], None]
) -> None:
    secret = state_of(running).image.topics["secret"].topic_id
    rules(may_see_open)
    assert everything(running) == ["open"]
    answer = {t.name: t for t in ask(running, "open", "secret", "nothing").topics}
    assert answer["open"].error_code == 0
    for name in ("secret", "nothing"):
        denied = answer[name]
        assert denied.error_code == CODES["TOPIC_AUTHORIZATION_FAILED"], "there or not"
        assert (denied.topic_id.int, denied.partitions) == (0, ())
    with WireClient(running.bootstrap_servers) as wire:
        topics = [MetadataRequestTopic(topic_id=i, name=None) for i in (secret, uuid.uuid4())]
        known, unknown = wire.ask(MetadataRequest(topics=topics), 12).topics
    assert (known.error_code, known.name) == (CODES["TOPIC_AUTHORIZATION_FAILED"], None)
    assert (unknown.error_code, unknown.name) == (CODES["UNKNOWN_TOPIC_ID"], None)


def may_create_in(place: str, operation: Operation, kind: ResourceType, name: str) -> bool:
    return operation is Operation.DESCRIBE or (operation is Operation.CREATE and name == place)


def test_topics_are_created_for_those_who_may(
    running: BrokerThread, rules: Callable[[Rule], None]
) -> None:
    rules(lambda operation, kind, name: operation is Operation.DESCRIBE)
    (denied,) = ask(running, "mine", create=True).topics
    assert denied.error_code == CODES["TOPIC_AUTHORIZATION_FAILED"]
    assert "mine" not in state_of(running).image.topics
    rules(lambda operation, kind, name: operation is Operation.CREATE and name == "hidden")
    ask(running, "hidden", create=True)
    assert "hidden" not in state_of(running).image.topics, "describing comes first"
    for number, place in enumerate((CLUSTER_NAME, "mine1")):
        rules(partial(may_create_in, place))
        (made,) = ask(running, f"mine{number}", create=True).topics
        assert (made.error_code, len(made.partitions)) == (0, 1)


@pytest.mark.parametrize("version", range(8, 14))
def test_operations_are_told_to_those_who_ask(
    running: BrokerThread, rules: Callable[[Rule], None], version: int
) -> None:
    allowed = (Operation.DESCRIBE, Operation.READ, Operation.ALTER)
    rules(lambda operation, kind, name: operation in allowed)
    answer = ask(running, "open", version=version)
    assert answer.topics[0].topic_authorized_operations == UNKNOWN
    assert answer.cluster_authorized_operations == UNKNOWN
    wanted = {"include_topic_authorized_operations": True}
    if version <= 10:
        wanted["include_cluster_authorized_operations"] = True
    answer = ask(running, "open", version=version, **wanted)
    bits = sum(1 << o for o in OPERATIONS_OF[ResourceType.TOPIC] if o in allowed)
    assert answer.topics[0].topic_authorized_operations == bits
    if version <= 10:
        bits = sum(1 << o for o in OPERATIONS_OF[ResourceType.CLUSTER] if o in allowed)
        assert answer.cluster_authorized_operations == bits
        rules(lambda operation, kind, name: kind is ResourceType.TOPIC)
        answer = ask(running, "open", version=version, **wanted)
        assert answer.cluster_authorized_operations == 0, "nothing, and not even to know it"


def test_racks_and_names_twice(running: BrokerThread) -> None:
    answer = ask(running, "open", "open", "b/d")
    assert [broker.rack for broker in answer.brokers] == ["rack-7"]
    codes = [(topic.name, topic.error_code) for topic in answer.topics]
    assert codes == [("open", 0), ("b/d", CODES["INVALID_TOPIC_EXCEPTION"])]


def test_names_and_ids_together_are_refused_before_v12(running: BrokerThread) -> None:
    known = state_of(running).image.topics["open"].topic_id
    with WireClient(running.bootstrap_servers) as wire:
        topics = [MetadataRequestTopic(topic_id=known, name=None)]
        answer = wire.ask(MetadataRequest(topics=topics, allow_auto_topic_creation=False), 10)
    assert answer.topics[0].error_code == CODES["INVALID_REQUEST"]


@pytest.mark.parametrize(
    ("version", "code"), [(5, "LEADER_NOT_AVAILABLE"), (6, "LISTENER_NOT_FOUND")]
)
def test_brokers_without_the_listener_are_not_told(tmp_path: Path, version: int, code: str) -> None:
    """A broker that has other listeners only: its address would lead nowhere, or ask for
    credentials that the client does not have."""
    with BrokerThread(tmp_path) as running:
        ask(running, "t", create=True)
        state = state_of(running)
        image = state.image
        other = BrokerImage(7, {"OUTSIDE": Endpoint("far", 9094, "SASL_SSL")})
        theirs = PartitionImage.of(7, 0, (7,), (7,))
        topic = image.topics["t"]
        seen = replace(image, brokers={**image.brokers, 7: other})
        state.partitions.image = seen.with_topic(
            replace(topic, partitions=(*topic.partitions, theirs))
        )
        answer = ask(running, "t", version=version)
        assert [broker.node_id for broker in answer.brokers] == [0]
        ours, hidden = answer.topics[0].partitions
        assert (ours.leader_id, ours.error_code) == (0, 0)
        assert (hidden.leader_id, hidden.error_code) == (-1, CODES[code])


def test_members_of_the_isr_that_are_away_are_not_shown(tmp_path: Path) -> None:
    """They stay in the state node where the ISR would get too small; for clients they are not in
    sync."""
    with BrokerThread(tmp_path) as running:
        ask(running, "t", create=True)
        state = state_of(running)
        topic = state.image.topics["t"]
        wide = PartitionImage.of(0, 0, (0, 7), (0, 7))
        state.partitions.image = state.image.with_topic(
            replace(topic, partitions=(*topic.partitions, wide))
        )
        shown = ask(running, "t").topics[0].partitions[1]
        assert (list(shown.replica_nodes), list(shown.isr_nodes)) == ([0, 7], [0])
        assert list(shown.offline_replicas) == [7]
