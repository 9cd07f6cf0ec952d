"""Several brokers are one cluster: what one of them is told, all of them know at once."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from cluster_members import (
    create,
    delete,
    leaders,
    member,
    metadata,
    produce,
    state_of,
    topic,
    values,
    zookeeper_or_skip,
)
from eventually import eventually

from tallymark.coordination import (
    Create,
    Delete,
    NotAuthorizedError,
    TopicRegistry,
    ZooKeeper,
    paths,
)
from tallymark.errors import CODES, KafkaError, TallymarkError
from tallymark.testing.broker_thread import BrokerThread
from tallymark.testing.zookeeper import ZooKeeperServer, expire_session

pytestmark = pytest.mark.process
Three = tuple[BrokerThread, BrokerThread, BrokerThread]


@pytest.fixture(scope="module")
def zookeeper(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ZooKeeperServer]:
    with zookeeper_or_skip(tmp_path_factory.mktemp("zookeeper")) as server:
        yield server


@pytest.fixture
def three(
    tmp_path: Path, zookeeper: ZooKeeperServer, request: pytest.FixtureRequest
) -> Iterator[Three]:
    chroot = request.node.name
    first, second, third = (member(tmp_path, zookeeper, chroot, n) for n in range(3))
    with first, second, third:
        for broker in (first, second):  # the last one has seen all when it is ready
            eventually(lambda broker: len(metadata(broker.bootstrap_servers).brokers) == 3, broker)
        yield first, second, third


def addresses(brokers: Three) -> list[str]:
    return [broker.bootstrap_servers for broker in brokers]


def test_topics_are_spread_and_every_broker_knows_every_leader(three: Three) -> None:
    at = addresses(three)
    for number, address in enumerate(at):
        assert create(address, f"t{number}", 4) == 0
    for number in range(3):
        name = f"t{number}"
        for address in at:
            eventually(lambda name, address: len(leaders(address, name)) == 4, name, address)
        told = {tuple(leaders(address, name)) for address in at}
        assert len(told) == 1
        (placed,) = told
        assert {placed.count(broker) for broker in range(3)} == {1, 2}, "spread evenly"
        for index, leader in enumerate(placed):
            eventually(lambda n, i, a: produce(a, n, i).error_code == 0, name, index, at[leader])
            wrong = produce(at[(leader + 1) % 3], name, index)
            assert wrong.error_code == CODES["NOT_LEADER_OR_FOLLOWER"]
            assert wrong.current_leader.leader_id == leader, "whom to ask instead (KIP-951)"
    assert len({topic(address, "t0").topic_id for address in at}) == 1
    # Twelve partitions on three brokers, whoever was asked.
    counts = state_of(three[0]).image.load()
    assert sorted(counts.values()) == [4, 4, 4]


def test_a_broker_that_leaves_is_gone_at_once_and_comes_back_with_its_partitions(
    three: Three, zookeeper: ZooKeeperServer, request: pytest.FixtureRequest
) -> None:
    first, second, third = three
    at = addresses(three)
    assert create(at[0], "t", 3) == 0
    eventually(lambda: sorted(leaders(at[2], "t")) == [0, 1, 2])
    index = leaders(at[2], "t").index(1)
    eventually(lambda: produce(at[1], "t", index).error_code == 0)
    before = topic(at[0], "t").partitions[index]
    with ZooKeeper(f"{zookeeper.connect}/{request.node.name}") as session:
        second.stop()
        registered = session.children(paths.BROKER_IDS)
    assert sorted(registered) == ["0", "2"], "no session has to end first"
    for address in (at[0], at[2]):
        eventually(lambda address: len(metadata(address).brokers) == 2, address)
        gone = topic(address, "t").partitions[index]
        assert (gone.leader_id, gone.error_code) == (-1, CODES["LEADER_NOT_AVAILABLE"])
        assert (gone.replica_nodes, gone.offline_replicas) == ((1,), (1,))
    second.start()
    for address in at:
        eventually(lambda address: leaders(address, "t")[index] == 1, address)
        assert topic(address, "t").partitions[index].leader_epoch == before.leader_epoch
    assert values(at[1], "t", index) == [b"x"]
    assert {metadata(address).controller_id for address in (at[0], at[2])} == {0}
    assert first.broker is not third.broker


def test_an_epoch_raised_after_a_crash_is_known_to_the_others_at_once(three: Three) -> None:
    """The flow: a broker raised the leader epochs of its partitions, and the others told clients
    the old ones for up to 30 s, until they read everything again."""
    at = addresses(three)
    assert create(at[0], "t", 3) == 0
    eventually(lambda: sorted(leaders(at[2], "t")) == [0, 1, 2])
    index = leaders(at[2], "t").index(1)
    three[1].kill()
    three[1].start()
    for address in at:
        eventually(lambda a: topic(a, "t").partitions[index].leader_epoch == 1, address)
        epochs = [part.leader_epoch for part in topic(address, "t").partitions]
        assert sorted(epochs) == [0, 0, 1], "only those that it leads"


def test_configs_partitions_and_new_topics_of_old_names_reach_every_broker(three: Three) -> None:
    at = addresses(three)
    assert create(at[0], "t", 2) == 0
    eventually(lambda: len(leaders(at[2], "t")) == 2)
    cluster = state_of(three[2]).cluster
    three[2].call(cluster.alter_topic_configs("t", {"flush.messages": "7"}))
    three[2].call(cluster.create_partitions("t", 6))
    for address in at:
        eventually(lambda a: sorted(leaders(a, "t")) == [0, 0, 1, 1, 2, 2], address)
    placed = leaders(at[0], "t")
    for index, leader in enumerate(placed):
        partitions = state_of(three[leader]).partitions
        eventually(lambda p, i: p.get("t", i) is not None, partitions, index)
        assert partitions.find("t", index).log.config.flush_messages == 7
        assert produce(at[leader], "t", index).error_code == 0
    before = topic(at[0], "t").topic_id
    for wrong in (6, 5):
        with pytest.raises(KafkaError, match="INVALID_PARTITIONS"):
            three[2].call(cluster.create_partitions("t", wrong))
    assert delete(at[1], "t") == 0
    # Until the controller has removed it the name is taken (TOPIC_ALREADY_EXISTS), as in Kafka.
    eventually(lambda: create(at[2], "t", 1) == 0)
    for address in at:
        eventually(lambda a: len(leaders(a, "t")) == 1, address)
    (after,) = {topic(address, "t").topic_id for address in at}
    assert after != before
    its_leader = at[leaders(at[0], "t")[0]]
    eventually(lambda: produce(its_leader, "t").error_code == 0)
    assert values(its_leader, "t") == [b"x"]


def test_a_deletion_without_a_controller_is_done_by_the_next(
    three: Three, zookeeper: ZooKeeperServer, request: pytest.FixtureRequest
) -> None:
    """The flow: somebody asks for a deletion, and the controller goes before it has heard."""
    at = addresses(three)
    assert create(at[0], "t", 3) == 0
    with ZooKeeper(f"{zookeeper.connect}/{request.node.name}") as session:
        # A controller that does not answer: its entry stands, nobody works.
        office = session.read(paths.CONTROLLER)
        session.commit(
            [Delete(paths.CONTROLLER), Create(paths.CONTROLLER, office.data, ephemeral=True)]
        )
        time.sleep(0.3)  # the brokers look, and find that somebody has it
        TopicRegistry(session).request_deletes(["t"])
        time.sleep(0.3)
        assert session.exists(paths.topic("t"))
        session.delete(paths.CONTROLLER)
        eventually(lambda: not session.exists(paths.topic("t")))
        assert TopicRegistry(session).deletions() == []
    for address in at:
        eventually(lambda a: topic(a, "t").error_code != 0, address)
    eventually(lambda: len({metadata(address).controller_id for address in at}) == 1)
    assert metadata(at[0]).controller_id >= 0


def test_a_session_that_was_lost_leaves_nothing_behind(three: Three) -> None:
    """The controller is silent for too long. It goes on serving (nobody else can lead what it
    leads), is registered again, and knows what happened meanwhile."""
    at = addresses(three)
    assert create(at[0], "t", 3) == 0
    index = leaders(at[0], "t").index(0)
    zookeeper = state_of(three[0]).cluster._zookeeper  # type: ignore[attr-defined]  # the port has none
    expire_session(zookeeper)
    assert produce(at[0], "t", index).error_code == 0
    # Which brokers get its partitions depends on whether broker 0 is registered again by now.
    assert create(at[1], "u", 3) == 0
    given = leaders(at[1], "u")
    for address in at:
        eventually(lambda a: len(metadata(a).brokers) == 3, address)
        eventually(lambda a: leaders(a, "u") == given, address)
    eventually(lambda: len({metadata(address).controller_id for address in at}) == 1)
    assert create(at[0], "v", 3) == 0
    for address in at:
        eventually(lambda a: sorted(leaders(a, "v")) == [0, 1, 2], address)
    assert delete(at[0], "t") == 0
    for address in at:
        eventually(lambda a: topic(a, "t").error_code != 0, address)


def test_a_picture_is_read_with_few_questions(three: Three) -> None:
    """A change of one topic must not read all of them: with ten thousand partitions every change
    would occupy every broker for seconds."""
    at = addresses(three)
    for number in range(20):
        assert create(at[0], f"t{number}", 3) == 0
    eventually(lambda: len(state_of(three[1]).image.topics) == 20)
    before = state_of(three[1]).image.topics
    assert create(at[0], "new", 1) == 0
    eventually(lambda: len(state_of(three[1]).image.topics) == 21)
    after = state_of(three[1]).image.topics
    assert all(after[name] is before[name] for name in before), "what has not changed was not read"


def test_a_closed_cluster_takes_brokers_with_the_password_only(
    tmp_path: Path, zookeeper: ZooKeeperServer
) -> None:
    """Others may look, as old consumers do, and leave what consumers leave; they change nothing."""
    known: dict[str, Any] = {
        "zookeeper_user": "brokers",
        "zookeeper_password": "secret",
        "zookeeper_set_acl": True,
    }
    with (
        member(tmp_path, zookeeper, "closed", 0, **known) as first,
        member(tmp_path, zookeeper, "closed", 1, **known) as second,
    ):
        assert create(second.bootstrap_servers, "t", 2) == 0
        eventually(lambda: sorted(leaders(first.bootstrap_servers, "t")) == [0, 1])
        with ZooKeeper(f"{zookeeper.connect}/closed") as stranger:
            assert TopicRegistry(stranger).get("t") is not None
            for path in (paths.topic("t"), paths.CONTROLLER, paths.broker(0)):
                with pytest.raises(NotAuthorizedError):
                    stranger.delete_tree(path)
            stranger.create("/consumers/g/ids", parents=True)
        with pytest.raises(TallymarkError, match=r"set zookeeper\.user"):
            member(tmp_path, zookeeper, "closed", 2).start()
        assert delete(second.bootstrap_servers, "t") == 0


def test_a_topic_deleted_while_a_broker_is_down_leaves_its_disk_when_it_is_back(
    tmp_path: Path, zookeeper: ZooKeeperServer
) -> None:
    """Its log lay there for good: a broker with ZooKeeper left alone whatever no topic had."""
    first = member(tmp_path, zookeeper, "away", 0)
    with member(tmp_path, zookeeper, "away", 1) as second:
        with first:
            assert create(first.bootstrap_servers, "t", 4) == 0
            eventually(lambda: sorted(leaders(second.bootstrap_servers, "t")) == [0, 0, 1, 1])
        folders = [first.settings.log_dirs[0], second.settings.log_dirs[0]]
        assert [len(list(folder.glob("t-*"))) for folder in folders] == [2, 2]
        assert delete(second.bootstrap_servers, "t") == 0
        eventually(lambda: not list(folders[1].glob("t-*")))
        with ZooKeeper(f"{zookeeper.connect}/away") as session:
            (note,) = session.children(paths.DELETED_TOPICS)
            assert note.startswith("0-")
            with first:
                eventually(lambda: not list(folders[0].glob("t-*")))
                eventually(lambda: not session.children(paths.DELETED_TOPICS))
