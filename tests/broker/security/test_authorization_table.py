"""What every API asks for: refused without it, not refused with exactly it, by Kafka's table."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import pytest
from eventually import eventually
from security_world import add_users, log_in

from tallymark.errors import CODES
from tallymark.protocol import messages as m
from tallymark.protocol.acls.entry import Acl
from tallymark.protocol.acls.words import CLUSTER_NAME, Operation, Pattern, ResourceType
from tallymark.protocol.api import ADVERTISED, ApiKey
from tallymark.protocol.messages.k01_fetch import FetchRequestReplicaState
from tallymark.protocol.records.batch import encode_batch
from tallymark.testing.broker_thread import BrokerThread
from tallymark.testing.wire import WireClient

O = Operation  # noqa: E741  # the table reads by it
TOPIC, GROUP, CLUSTER = ResourceType.TOPIC, ResourceType.GROUP, ResourceType.CLUSTER
TRANSACTION = ResourceType.TRANSACTIONAL_ID
REFUSALS = {
    TOPIC: CODES["TOPIC_AUTHORIZATION_FAILED"],
    GROUP: CODES["GROUP_AUTHORIZATION_FAILED"],
    CLUSTER: CODES["CLUSTER_AUTHORIZATION_FAILED"],
    TRANSACTION: CODES["TRANSACTIONAL_ID_AUTHORIZATION_FAILED"],
}
NAMES = {TOPIC: "secret", GROUP: "circle", CLUSTER: CLUSTER_NAME, TRANSACTION: "deal"}
BATCH = encode_batch([(None, b"x", (), 1)])


class Rule(NamedTuple):
    """``refused``: the kind of error without the permissions; ``needs``: what is enough. Of the
    versions up to ``latest`` the newest one is asked in."""

    request: Any
    refused: ResourceType
    needs: Sequence[tuple[Operation, ResourceType]]
    latest: int = 12


def topics(cls: Any, **fields: Any) -> tuple[Any]:
    return (cls(**fields),)


PRODUCE = m.ProduceRequest(
    acks=1,
    timeout_ms=1000,
    topic_data=topics(
        m.ProduceRequestTopic,
        name="secret",
        partition_data=(m.ProduceRequestPartition(index=0, records=BATCH),),
    ),
)
COMMIT = m.OffsetCommitRequest(
    group_id="circle",
    topics=topics(
        m.OffsetCommitRequestTopic,
        name="secret",
        partitions=(m.OffsetCommitRequestPartition(partition_index=0, committed_offset=0),),
    ),
)
ENTRY = m.CreateAclsRequestCreation(
    resource_type=2,
    resource_name="other",
    principal="User:nobody",
    host="*",
    operation=3,
    permission_type=3,
)
ANY_FILTER: dict[str, Any] = {
    "resource_type_filter": 2,
    "resource_name_filter": "nothing",
    "operation": 1,
    "permission_type": 1,
}

RULES: dict[str, Rule] = {
    "Produce": Rule(PRODUCE, TOPIC, [(O.WRITE, TOPIC)]),
    "Fetch": Rule(
        m.FetchRequest(
            max_wait_ms=0,
            max_bytes=1000,
            session_epoch=-1,
            topics=topics(
                m.FetchRequestTopic,
                topic="secret",
                partitions=(m.FetchRequestPartition(partition=0, partition_max_bytes=1000),),
            ),
        ),
        TOPIC,
        [(O.READ, TOPIC)],
    ),
    "ListOffsets": Rule(
        m.ListOffsetsRequest(
            topics=topics(
                m.ListOffsetsRequestTopic,
                name="secret",
                partitions=(m.ListOffsetsRequestPartition(partition_index=0, timestamp=-1),),
            )
        ),
        TOPIC,
        [(O.DESCRIBE, TOPIC)],
    ),
    "Fetch of a follower": Rule(
        m.FetchRequest(
            replica_state=FetchRequestReplicaState(replica_id=1, replica_epoch=1),
            max_wait_ms=0,
            max_bytes=1000,
            session_epoch=-1,
            topics=topics(
                m.FetchRequestTopic,
                partitions=(m.FetchRequestPartition(partition=0, partition_max_bytes=1000),),
            ),
        ),
        CLUSTER,
        [(O.CLUSTER_ACTION, CLUSTER)],
        latest=16,
    ),
    "ListOffsets of a follower": Rule(
        m.ListOffsetsRequest(
            replica_id=1,
            topics=topics(
                m.ListOffsetsRequestTopic,
                name="secret",
                partitions=(m.ListOffsetsRequestPartition(partition_index=0, timestamp=-1),),
            ),
        ),
        CLUSTER,
        [(O.CLUSTER_ACTION, CLUSTER)],
    ),
    "OffsetForLeaderEpoch of a follower": Rule(
        m.OffsetForLeaderEpochRequest(
            replica_id=1,
            topics=topics(
                m.OffsetForLeaderEpochRequestTopic,
                topic="secret",
                partitions=(m.OffsetForLeaderEpochRequestPartition(partition=0, leader_epoch=0),),
            ),
        ),
        CLUSTER,
        [(O.CLUSTER_ACTION, CLUSTER)],
    ),
    "Metadata": Rule(
        m.MetadataRequest(topics=topics(m.MetadataRequestTopic, name="secret")),
        TOPIC,
        [(O.DESCRIBE, TOPIC)],
    ),
    "OffsetCommit": Rule(COMMIT, GROUP, [(O.READ, GROUP), (O.READ, TOPIC)]),
    "OffsetFetch": Rule(
        m.OffsetFetchRequest(
            group_id="circle",
            groups=topics(
                m.OffsetFetchRequestGroup,
                group_id="circle",
                topics=topics(m.OffsetFetchRequestTopic, name="secret", partition_indexes=(0,)),
            ),
        ),
        GROUP,
        [(O.DESCRIBE, GROUP), (O.DESCRIBE, TOPIC)],
    ),
    "FindCoordinator": Rule(
        m.FindCoordinatorRequest(key="circle", coordinator_keys=("circle",)),
        GROUP,
        [(O.DESCRIBE, GROUP)],
    ),
    "JoinGroup": Rule(
        m.JoinGroupRequest(
            group_id="circle",
            session_timeout_ms=10_000,
            rebalance_timeout_ms=1000,
            protocol_type="consumer",
            protocols=topics(m.JoinGroupRequestProtocol, name="range", metadata=b""),
        ),
        GROUP,
        [(O.READ, GROUP)],
    ),
    "Heartbeat": Rule(
        m.HeartbeatRequest(group_id="circle", member_id="x"), GROUP, [(O.READ, GROUP)]
    ),
    "LeaveGroup": Rule(
        m.LeaveGroupRequest(group_id="circle", member_id="x"), GROUP, [(O.READ, GROUP)]
    ),
    "SyncGroup": Rule(
        m.SyncGroupRequest(group_id="circle", member_id="x"), GROUP, [(O.READ, GROUP)]
    ),
    "DescribeGroups": Rule(
        m.DescribeGroupsRequest(groups=("circle",)), GROUP, [(O.DESCRIBE, GROUP)]
    ),
    "DeleteGroups": Rule(
        m.DeleteGroupsRequest(groups_names=("circle",)), GROUP, [(O.DELETE, GROUP)]
    ),
    "OffsetDelete": Rule(
        m.OffsetDeleteRequest(
            group_id="circle",
            topics=topics(
                m.OffsetDeleteRequestTopic,
                name="secret",
                partitions=(m.OffsetDeleteRequestPartition(partition_index=0),),
            ),
        ),
        GROUP,
        [(O.DELETE, GROUP), (O.READ, TOPIC)],
    ),
    "CreateTopics": Rule(
        m.CreateTopicsRequest(
            topics=topics(
                m.CreateTopicsRequestTopic, name="secret", num_partitions=1, replication_factor=1
            )
        ),
        TOPIC,
        [(O.CREATE, TOPIC)],
    ),
    "CreateTopics by the cluster": Rule(
        m.CreateTopicsRequest(
            topics=topics(
                m.CreateTopicsRequestTopic, name="secret", num_partitions=1, replication_factor=1
            )
        ),
        TOPIC,
        [(O.CREATE, CLUSTER)],
    ),
    "DeleteTopics": Rule(
        m.DeleteTopicsRequest(
            topic_names=("secret",),
            topics=topics(m.DeleteTopicsRequestTopic, name="secret"),
            timeout_ms=1000,
        ),
        TOPIC,
        [(O.DELETE, TOPIC)],
    ),
    "DeleteRecords": Rule(
        m.DeleteRecordsRequest(
            topics=topics(
                m.DeleteRecordsRequestTopic,
                name="secret",
                partitions=(m.DeleteRecordsRequestPartition(partition_index=0, offset=0),),
            ),
            timeout_ms=1000,
        ),
        TOPIC,
        [(O.DELETE, TOPIC)],
    ),
    "InitProducerId": Rule(m.InitProducerIdRequest(), CLUSTER, [(O.IDEMPOTENT_WRITE, CLUSTER)]),
    "InitProducerId by a topic": Rule(m.InitProducerIdRequest(), CLUSTER, [(O.WRITE, TOPIC)]),
    "OffsetForLeaderEpoch": Rule(
        m.OffsetForLeaderEpochRequest(
            topics=topics(
                m.OffsetForLeaderEpochRequestTopic,
                topic="secret",
                partitions=(m.OffsetForLeaderEpochRequestPartition(partition=0),),
            )
        ),
        TOPIC,
        [(O.DESCRIBE, TOPIC)],
    ),
    "DescribeAcls": Rule(m.DescribeAclsRequest(**ANY_FILTER), CLUSTER, [(O.DESCRIBE, CLUSTER)]),
    "CreateAcls": Rule(m.CreateAclsRequest(creations=(ENTRY,)), CLUSTER, [(O.ALTER, CLUSTER)]),
    "DeleteAcls": Rule(
        m.DeleteAclsRequest(filters=topics(m.DeleteAclsRequestFilter, **ANY_FILTER)),
        CLUSTER,
        [(O.ALTER, CLUSTER)],
    ),
    "DescribeConfigs": Rule(
        m.DescribeConfigsRequest(
            resources=topics(
                m.DescribeConfigsRequestResource, resource_type=2, resource_name="secret"
            )
        ),
        TOPIC,
        [(O.DESCRIBE_CONFIGS, TOPIC)],
    ),
    "DescribeConfigs of a broker": Rule(
        m.DescribeConfigsRequest(
            resources=topics(m.DescribeConfigsRequestResource, resource_type=4, resource_name="0")
        ),
        CLUSTER,
        [(O.DESCRIBE_CONFIGS, CLUSTER)],
    ),
    "DescribeConfigs of a group": Rule(
        m.DescribeConfigsRequest(
            resources=topics(
                m.DescribeConfigsRequestResource, resource_type=32, resource_name="circle"
            )
        ),
        GROUP,
        [(O.DESCRIBE_CONFIGS, GROUP)],
    ),
    "IncrementalAlterConfigs of a group": Rule(
        m.IncrementalAlterConfigsRequest(
            resources=topics(
                m.IncrementalAlterConfigsRequestResource, resource_type=32, resource_name="circle"
            )
        ),
        GROUP,
        [(O.ALTER_CONFIGS, GROUP)],
    ),
    "IncrementalAlterConfigs of a broker": Rule(
        m.IncrementalAlterConfigsRequest(
            resources=topics(
                m.IncrementalAlterConfigsRequestResource, resource_type=4, resource_name=""
            )
        ),
        CLUSTER,
        [(O.ALTER_CONFIGS, CLUSTER)],
    ),
    "IncrementalAlterConfigs of loggers": Rule(
        m.IncrementalAlterConfigsRequest(
            resources=topics(
                m.IncrementalAlterConfigsRequestResource, resource_type=8, resource_name="0"
            )
        ),
        CLUSTER,
        [(O.ALTER_CONFIGS, CLUSTER)],
    ),
    "AlterConfigs": Rule(
        m.AlterConfigsRequest(
            resources=topics(m.AlterConfigsRequestResource, resource_type=2, resource_name="secret")
        ),
        TOPIC,
        [(O.ALTER_CONFIGS, TOPIC)],
    ),
    "IncrementalAlterConfigs": Rule(
        m.IncrementalAlterConfigsRequest(
            resources=topics(
                m.IncrementalAlterConfigsRequestResource, resource_type=2, resource_name="secret"
            )
        ),
        TOPIC,
        [(O.ALTER_CONFIGS, TOPIC)],
    ),
    "DescribeLogDirs": Rule(
        m.DescribeLogDirsRequest(topics=None), CLUSTER, [(O.DESCRIBE, CLUSTER)]
    ),
    "AlterReplicaLogDirs": Rule(
        m.AlterReplicaLogDirsRequest(
            dirs=topics(
                m.AlterReplicaLogDirsRequestDir,
                path="/nowhere",
                topics=topics(m.AlterReplicaLogDirsRequestTopic, name="secret", partitions=(0,)),
            )
        ),
        CLUSTER,
        [(O.ALTER, CLUSTER)],
    ),
    "CreatePartitions": Rule(
        m.CreatePartitionsRequest(
            topics=topics(m.CreatePartitionsRequestTopic, name="secret", count=2),
            timeout_ms=1000,
        ),
        TOPIC,
        [(O.ALTER, TOPIC)],
    ),
    "DescribeProducers": Rule(
        m.DescribeProducersRequest(
            topics=topics(m.DescribeProducersRequestTopic, name="secret", partition_indexes=(0,))
        ),
        TOPIC,
        [(O.READ, TOPIC)],
    ),
    "DescribeTopicPartitions": Rule(
        m.DescribeTopicPartitionsRequest(
            topics=topics(m.DescribeTopicPartitionsRequestTopic, name="secret")
        ),
        TOPIC,
        [(O.DESCRIBE, TOPIC)],
    ),
    "ListConfigResources": Rule(
        m.ListConfigResourcesRequest(), CLUSTER, [(O.DESCRIBE_CONFIGS, CLUSTER)]
    ),
    "ElectLeaders": Rule(
        m.ElectLeadersRequest(
            topic_partitions=topics(m.ElectLeadersRequestTopic, topic="secret", partitions=(0,))
        ),
        CLUSTER,
        [(O.ALTER, CLUSTER)],
    ),
    "AlterPartitionReassignments": Rule(
        m.AlterPartitionReassignmentsRequest(), CLUSTER, [(O.ALTER, CLUSTER)]
    ),
    "ListPartitionReassignments": Rule(
        m.ListPartitionReassignmentsRequest(), CLUSTER, [(O.DESCRIBE, CLUSTER)]
    ),
    "UpdateFeatures": Rule(
        m.UpdateFeaturesRequest(
            feature_updates=topics(
                m.UpdateFeaturesRequestFeature, feature="none", max_version_level=1
            )
        ),
        CLUSTER,
        [(O.ALTER, CLUSTER)],
    ),
    "DescribeClientQuotas": Rule(
        m.DescribeClientQuotasRequest(), CLUSTER, [(O.DESCRIBE_CONFIGS, CLUSTER)]
    ),
    "AlterClientQuotas": Rule(
        m.AlterClientQuotasRequest(
            entries=topics(
                m.AlterClientQuotasRequestEntry,
                entity=topics(
                    m.AlterClientQuotasRequestEntity, entity_type="user", entity_name="x"
                ),
            ),
            validate_only=True,
        ),
        CLUSTER,
        [(O.ALTER_CONFIGS, CLUSTER)],
    ),
    "DescribeUserScramCredentials": Rule(
        m.DescribeUserScramCredentialsRequest(), CLUSTER, [(O.DESCRIBE, CLUSTER)]
    ),
    "AlterUserScramCredentials": Rule(
        m.AlterUserScramCredentialsRequest(
            deletions=topics(m.AlterUserScramCredentialsRequestDeletion, name="nobody", mechanism=1)
        ),
        CLUSTER,
        [(O.ALTER, CLUSTER)],
    ),
    "FindCoordinator of a transactional id": Rule(
        m.FindCoordinatorRequest(key="deal", key_type=1, coordinator_keys=("deal",)),
        TRANSACTION,
        [(O.DESCRIBE, TRANSACTION)],
    ),
    "InitProducerId of a transactional id": Rule(
        m.InitProducerIdRequest("deal", 1000), TRANSACTION, [(O.WRITE, TRANSACTION)]
    ),
    "AddPartitionsToTxn": Rule(
        m.AddPartitionsToTxnRequest(
            v3_and_below_transactional_id="deal",
            v3_and_below_topics=topics(
                m.AddPartitionsToTxnRequestTopic, name="secret", partitions=(0,)
            ),
        ),
        TRANSACTION,
        [(O.WRITE, TRANSACTION), (O.WRITE, TOPIC)],
        latest=3,
    ),
    "AddPartitionsToTxn of a broker": Rule(
        m.AddPartitionsToTxnRequest(), CLUSTER, [(O.CLUSTER_ACTION, CLUSTER)]
    ),
    "AddOffsetsToTxn": Rule(
        m.AddOffsetsToTxnRequest("deal", 0, 0, "circle"),
        TRANSACTION,
        [(O.WRITE, TRANSACTION), (O.READ, GROUP)],
    ),
    "EndTxn": Rule(m.EndTxnRequest("deal", 0, 0, True), TRANSACTION, [(O.WRITE, TRANSACTION)]),
    "WriteTxnMarkers": Rule(
        m.WriteTxnMarkersRequest(
            topics(
                m.WriteTxnMarkersRequestMarker,
                topics=topics(
                    m.WriteTxnMarkersRequestTopic, name="nothing", partition_indexes=(0,)
                ),
            )
        ),
        CLUSTER,
        [(O.CLUSTER_ACTION, CLUSTER)],
    ),
    "TxnOffsetCommit": Rule(
        m.TxnOffsetCommitRequest(
            transactional_id="deal",
            group_id="circle",
            topics=topics(
                m.TxnOffsetCommitRequestTopic,
                name="secret",
                partitions=(m.TxnOffsetCommitRequestPartition(partition_index=0),),
            ),
        ),
        TRANSACTION,
        [(O.WRITE, TRANSACTION), (O.READ, GROUP), (O.READ, TOPIC)],
    ),
    "DescribeTransactions": Rule(
        m.DescribeTransactionsRequest(("deal",)), TRANSACTION, [(O.DESCRIBE, TRANSACTION)]
    ),
}
OPEN_TO_ALL = {
    "SaslHandshake",
    "SaslAuthenticate",
    "ApiVersions",
    "DescribeCluster",
    "ListGroups",
    "ListTransactions",
}
"""They tell what the asker may see, or nothing that is secret."""


def codes(value: Any) -> set[int]:
    """Every error code in a response."""
    if isinstance(value, list | tuple):
        return set().union(*map(codes, value)) if value else set()
    if not dataclasses.is_dataclass(value):
        return set()
    found: set[int] = set()
    for field in dataclasses.fields(value):
        inner = getattr(value, field.name)
        found |= {inner} if field.name.endswith("error_code") else codes(inner)
    return found


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerThread]:
    folder = tmp_path_factory.mktemp("data")
    add_users(folder / "broker", "ann", "root")
    with BrokerThread(
        folder,
        listeners="SASL_PLAINTEXT://127.0.0.1:0",
        sasl_enabled_mechanisms="PLAIN",
        authorizer_enable=True,
        super_users="User:root;User:other",
    ) as running:
        yield running


@pytest.fixture
def root(broker: BrokerThread) -> Iterator[WireClient]:
    with client_of(broker, "root") as client:
        made = m.CreateTopicsRequestTopic(name="secret", num_partitions=1, replication_factor=1)
        client.ask(m.CreateTopicsRequest(topics=(made,)), 5)
        client.ask(m.FindCoordinatorRequest(key="circle"), 1)
        client.ask(m.FindCoordinatorRequest(key="deal", key_type=1), 1)
        eventually(lambda: _has_coordinator(client))  # whichever test is the first
        yield client


def _has_coordinator(client: WireClient) -> bool:
    (found,) = client.ask(m.DescribeTransactionsRequest(("deal",)), 0).transaction_states
    not_yet = ("COORDINATOR_LOAD_IN_PROGRESS", "COORDINATOR_NOT_AVAILABLE", "NOT_COORDINATOR")
    return found.error_code not in {CODES[name] for name in not_yet}


def client_of(broker: BrokerThread, user: str) -> WireClient:
    assert broker.broker is not None
    client = WireClient(str(broker.broker.address))
    assert log_in(client, user) == 0
    return client


def grant(broker: BrokerThread, *needs: tuple[Operation, ResourceType], allow: bool = True) -> None:
    """Exactly these are what ann has."""
    assert broker.broker is not None
    state = broker.broker.state
    assert state is not None
    acls = [
        Acl(kind, NAMES[kind], Pattern.LITERAL, "User:ann", "*", operation, allow)
        for operation, kind in needs
    ]
    security = state.security

    def replace() -> None:
        security.store.change_acls(add=acls, remove=security.records.acls)

    broker.call(security.change(replace))


def version_of(rule: Rule) -> int:
    return min(ADVERTISED[rule.request.api_key][1], rule.latest)


@pytest.mark.parametrize("name", RULES)
def test_refused_without_and_not_refused_with(
    broker: BrokerThread, root: WireClient, name: str
) -> None:
    rule = RULES[name]
    with client_of(broker, "ann") as ann:
        grant(broker)
        version = version_of(rule)
        assert REFUSALS[rule.refused] in codes(ann.ask(rule.request, version))
        for missing in rule.needs if len(rule.needs) > 1 else ():
            grant(broker, *(need for need in rule.needs if need != missing))
            refused = codes(ann.ask(rule.request, version))
            assert REFUSALS[missing[1]] in refused, f"without {missing}"
        grant(broker, *rule.needs)
        answered = codes(ann.ask(rule.request, version))
        assert not answered & set(REFUSALS.values()), answered


def test_every_api_has_its_rule() -> None:
    covered = {rule.request.api_key for rule in RULES.values()}
    names = {"".join(p.capitalize() for p in key.name.split("_")): key for key in ApiKey}
    covered |= {names[name] for name in OPEN_TO_ALL}
    assert covered == set(ADVERTISED)


def test_a_list_tells_only_what_may_be_described(broker: BrokerThread, root: WireClient) -> None:
    root.ask(COMMIT, 5)
    with client_of(broker, "ann") as ann:
        grant(broker)
        assert ann.ask(m.MetadataRequest(topics=None), 5).topics == ()
        assert ann.ask(m.ListGroupsRequest(), 0).groups == ()
        grant(broker, (O.READ, TOPIC), (O.READ, GROUP))
        assert [t.name for t in ann.ask(m.MetadataRequest(topics=None), 5).topics] == ["secret"]
        assert [g.group_id for g in ann.ask(m.ListGroupsRequest(), 0).groups] == ["circle"]


def test_an_unknown_topic_looks_like_a_hidden_one(broker: BrokerThread, root: WireClient) -> None:
    asked = (m.MetadataRequestTopic(name="secret"), m.MetadataRequestTopic(name="nothing"))
    with client_of(broker, "ann") as ann:
        grant(broker)
        answer = ann.ask(m.MetadataRequest(topics=asked, allow_auto_topic_creation=True), 5)
        assert {t.error_code for t in answer.topics} == {REFUSALS[TOPIC]}
        assert all(not t.partitions for t in answer.topics)
    every = root.ask(m.MetadataRequest(topics=None), 5)
    assert "nothing" not in [topic.name for topic in every.topics], "it was not created either"


def test_auto_creation_asks_for_create(broker: BrokerThread, root: WireClient) -> None:
    asked = m.MetadataRequest(topics=(m.MetadataRequestTopic(name="secret"),))
    doomed = m.DeleteTopicsRequest(topic_names=("secret",), timeout_ms=1000)
    with client_of(broker, "ann") as ann:
        root.ask(doomed, 3)
        grant(broker, (O.DESCRIBE, TOPIC))
        assert codes(ann.ask(asked, 5).topics) == {REFUSALS[TOPIC]}
        for kind in (TOPIC, CLUSTER):
            root.ask(doomed, 3)
            grant(broker, (O.DESCRIBE, TOPIC), (O.CREATE, kind))
            assert codes(ann.ask(asked, 5).topics) == {0}


def test_a_denial_wins(broker: BrokerThread, root: WireClient) -> None:
    with client_of(broker, "ann") as ann:
        grant(broker, (O.WRITE, TOPIC))
        assert codes(ann.ask(PRODUCE, 9)) == {0}
        grant(broker, (O.WRITE, TOPIC), allow=False)
        assert codes(ann.ask(PRODUCE, 9)) == {REFUSALS[TOPIC]}


@pytest.mark.parametrize("name", [name for name in RULES if name.endswith("of a follower")])
def test_a_reader_of_a_topic_cannot_act_as_a_broker_and_a_super_user_can(
    broker: BrokerThread, root: WireClient, name: str
) -> None:
    """Who could would read what is not committed yet, and fake the progress of a replica."""
    rule, refused = RULES[name], REFUSALS[CLUSTER]
    with client_of(broker, "ann") as ann:
        grant(broker, (O.READ, TOPIC), (O.WRITE, TOPIC), (O.ALTER, CLUSTER), (O.DESCRIBE, CLUSTER))
        assert refused in codes(ann.ask(rule.request, version_of(rule)))
        grant(broker, (O.CLUSTER_ACTION, CLUSTER), allow=False)
        assert refused in codes(ann.ask(rule.request, version_of(rule)))
    assert refused not in codes(root.ask(rule.request, version_of(rule)))
