"""``tallymark groups``, ``offsets`` and ``log-dirs`` against real brokers, ours with and without
ZooKeeper, and Apache Kafka."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import click
import pytest
from broker_kinds import AT_ONCE, KINDS, AnyBroker, either_broker
from commands import run_command

from tallymark.cli.admin import groups, log_dirs, offsets
from tallymark.client import Admin, ConsumerConnector, Producer
from tallymark.client.admin.zookeeper_groups import ZooKeeperGroups
from tallymark.coordination import ZooKeeper
from tallymark.errors import KafkaError, UserError
from tallymark.testing.broker_thread import BrokerThread
from tallymark.testing.zookeeper import ZooKeeperServer

FIRST_MS = 1_700_000_000_000
KAFKAS_COLUMNS = [
    *("GROUP", "TOPIC", "PARTITION", "CURRENT-OFFSET", "LOG-END-OFFSET", "LAG"),
    *("CONSUMER-ID", "HOST", "CLIENT-ID"),
]
"""Of kafka-consumer-groups.sh --describe. The test had held names of our own."""
OURS_BEHIND = ["COMMITTED-LAG", "BEHIND-OPEN-TRANSACTION"]
"""Behind Kafka's: where readers of committed messages end, and what they cannot reach."""


@pytest.fixture(scope="module", params=KINDS)
def broker(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[AnyBroker]:
    for running in either_broker(request, tmp_path_factory.mktemp("groups"), **AT_ONCE):
        with Admin(bootstrap_servers=running.bootstrap_servers) as admin:
            admin.create_topic("clicks", 2)
        fill(running, "clicks")
        yield running


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TALLYMARK_SETTINGS", raising=False)
    monkeypatch.chdir(tmp_path)


def fill(broker: AnyBroker, topic: str) -> None:
    """Ten records, a second apart, in partition 0."""
    with Producer(bootstrap_servers=broker.bootstrap_servers, audit=False) as producer:
        for number in range(10):
            producer.send(topic, b"x", partition=0, timestamp=FIRST_MS + 1000 * number)
            producer.flush()


def run(broker: AnyBroker, command: click.Command, *words: str, code: int = 0) -> str:
    servers = ("--bootstrap-server", broker.bootstrap_servers)
    return run_command(command, *words, *servers, code=code).output


def stand(broker: AnyBroker, group: str, offset: int) -> None:
    with Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
        admin.alter_group_offsets(group, {("clicks", 0): offset}).check()


def test_offsets_are_checked_as_the_seeds_tool_does(broker: AnyBroker) -> None:
    stand(broker, "slow", 4)
    stand(broker, "done", 10)
    told = run(broker, offsets.command, "check").splitlines()
    assert told[0] == "\t".join([*KAFKAS_COLUMNS, *OURS_BEHIND])
    assert "slow\tclicks\t0\t4\t10\t6\t-\t-\t-\t6\t0" in told
    assert "done\tclicks\t0\t10\t10\t0\t-\t-\t-\t0\t0" in told
    (row,) = json.loads(run(broker, offsets.command, "check", "--group", "slow", "--json"))
    assert row["lag"] == 6
    other = run(broker, offsets.command, "check", "--topic", "other", code=1)
    assert "there is no topic other" in other
    assert "slow" not in other
    both = run(broker, offsets.command, "check", "--group", "slow", "--group", "nobody", code=2)
    assert "there is no group nobody" in both
    run(broker, offsets.command, "check", "--group", "nobody", code=1)


def test_offsets_of_logs(broker: AnyBroker) -> None:
    told = run(broker, offsets.command, "list", "clicks").splitlines()
    assert told[1:] == ["clicks\t0\t0\t10", "clicks\t1\t0\t0"]
    late = run(broker, offsets.command, "list", "clicks", "--time", "2023-11-14T22:13:22.500Z")
    assert late.splitlines()[1:] == [f"clicks\t0\t3\t{FIRST_MS + 3000}", "clicks\t1\t-\t-1"]


def test_groups_are_listed_described_and_deleted(broker: AnyBroker) -> None:
    stand(broker, "loader", 3)
    assert "loader\tclassic\t-\tEmpty\tbrokers\t0" in run(broker, groups.command, "list").replace(
        "Classic", "classic"
    )
    assert "loader" not in run(broker, groups.command, "list", "--state", "stable")
    told = run(broker, groups.command, "describe", "loader", "nobody", code=2).splitlines()
    assert told[0] == "loader\tkept by brokers\tEmpty\t0 members"
    assert "loader\tclicks\t0\t3\t10\t7\t-\t-\t-\t7\t0" in told
    assert (
        json.loads(run(broker, groups.command, "describe", "loader", "--members", "--json")) == []
    )
    with pytest.raises(UserError, match="there is no group nobody"):
        run(broker, groups.command, "describe", "nobody")
    with pytest.raises(UserError, match="where is the cluster's ZooKeeper"):
        run(broker, groups.command, "list", "--kept", "zookeeper")

    run(broker, groups.command, "delete", "loader", "--dry-run")
    assert "loader" in run(broker, groups.command, "list")
    assert "loader: deleted" in run(broker, groups.command, "delete", "loader", "--yes")
    assert "loader" not in run(broker, groups.command, "list")
    assert "there is no group" in run(broker, groups.command, "delete", "loader", "--yes", code=1)


@pytest.mark.parametrize(
    ("where", "after"),
    [
        (("--to-earliest",), 0),
        (("--to-latest",), 10),
        (("--to-offset", "7"), 7),
        (("--to-time", "2023-11-14T22:13:25Z"), 5),
        (("--shift-by", "-2"), 2),
        (("--shift-by", "50"), 10),
    ],
)
def test_a_group_is_reset(broker: AnyBroker, where: tuple[str, ...], after: int) -> None:
    stand(broker, "moved-by-hand", 4)
    words = ("reset", "moved-by-hand", "--all-topics", *where)
    moved = "yes" if "50" in where else "no"
    expected = f"clicks\t0\t4\t{after}\t{after - 4}\t{moved}"
    assert expected in run(broker, groups.command, *words, "--dry-run")
    with Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
        assert admin.group_offsets("moved-by-hand")["clicks", 0].offset == 4
        told = run(broker, groups.command, *words, "--yes")
        assert "moved-by-hand: reset in 1 partition" in told
        assert admin.group_offsets("moved-by-hand")["clicks", 0].offset == after


def test_a_reset_says_what_it_cannot_do(broker: AnyBroker) -> None:
    for words, said in (
        (("--all-topics",), "where to"),
        (("--all-topics", "--to-earliest", "--to-latest"), "where to"),
        (("--to-earliest",), "which topics"),
        (("--all-topics", "--to-earliest"), "has no offsets"),
        (("--topic", "clicks:5", "--to-earliest"), "has no partition 5"),
        (("--topic", "clicks", "--to-earliest"), "has to be confirmed"),
    ):
        with pytest.raises(UserError, match=said):
            run(broker, groups.command, "reset", "newcomer", *words)
    shift = ("reset", "newcomer", "--topic", "clicks", "--shift-by", "1", "--yes")
    told = run(broker, groups.command, *shift, code=1)
    assert "clicks-0: the group has no offset there" in told
    made = run(
        broker, groups.command, "reset", "newcomer", "--topic", "clicks:0", "--to-latest", "--yes"
    )
    assert "clicks\t0\t-\t10\t-\tno" in made


def test_disks(broker: AnyBroker) -> None:
    (row,) = json.loads(run(broker, log_dirs.command, "--json"))
    assert row["partitions"] >= 2
    assert row["bytes"] > 0
    assert "clicks\t1\t" in run(broker, log_dirs.command, "--topic", "clicks")
    assert "there is no broker 9" in run(broker, log_dirs.command, "--broker", "9", code=1)


@pytest.mark.process
def test_groups_in_zookeeper_are_told_and_changed_in_the_same_words(tmp_path: Path) -> None:
    with ExitStack() as stack:
        connect = stack.enter_context(ZooKeeperServer(tmp_path)).connect + "/dc1"
        broker = stack.enter_context(
            BrokerThread(tmp_path, enable_zookeeper=True, zookeeper_connect=connect)
        )
        fill(broker, "clicks")
        stand(broker, "theirs", 2)
        there = ("--zookeeper", connect)
        with ConsumerConnector(zookeeper_connect=connect, group="ours", consumer_id="c1") as one:
            (stream,) = one.create_message_streams({"clicks": 1})["clicks"]
            assert len([next(stream) for _ in range(10)]) == 10
            one.commit_offsets()
            told = run(broker, offsets.command, "check", *there)
            assert "ours\tclicks\t0\t10\t10\t0\tc1" in told
            assert "theirs\tclicks\t0\t2\t10\t8\t-" in told
            told = run(broker, groups.command, "describe", "ours", *there)
            assert told.startswith("ours\tkept by zookeeper\tStable\t1 member")
            reset = ("reset", "ours", "--all-topics", "--to-earliest", "--yes", *there)
            with pytest.raises(UserError, match="has 1 member; stop its consumers"):
                run(broker, groups.command, *reset)
            assert "NON_EMPTY_GROUP" in run(
                broker, groups.command, "delete", "ours", "--yes", *there, code=1
            )
        assert "clicks\t0\t10\t0\t-10\tno" in run(broker, groups.command, *reset)
        with ConsumerConnector(zookeeper_connect=connect, group="ours") as one:
            (stream,) = one.create_message_streams({"clicks": 1})["clicks"]
            assert next(stream).offset == 0
        run(broker, groups.command, "delete", "ours", "--yes", *there)
        listed = run(broker, groups.command, "list", *there)
        assert "ours" not in listed
        assert "theirs" in listed
        with ZooKeeper(connect) as session:
            known = ZooKeeperGroups(session)
            known.alter_group_offsets("made", {("clicks", 0): 3})
            assert known.group_offsets("made") == {("clicks", 0): 3}
            known.delete_group_offsets("made", [("clicks", 0)])
            assert known.group_offsets("made") == {}
            with pytest.raises(KafkaError, match="GROUP_ID_NOT_FOUND"):
                known.describe_group("nobody")
