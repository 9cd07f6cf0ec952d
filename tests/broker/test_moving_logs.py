"""AlterReplicaLogDirs: what is asked of this broker's log directories, and what it can do."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from admin_wire import create, fresh

from tallymark.broker.handlers import k34_alter_replica_log_dirs as k34
from tallymark.errors import CODES
from tallymark.log.disk.partition_folder import LogKey
from tallymark.log.results import DirInfo, LogInfo
from tallymark.protocol import messages as m
from tallymark.testing.broker_thread import BrokerThread
from tallymark.testing.wire import WireClient


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    home = tmp_path_factory.mktemp("data")
    return home / "a", home / "b"


@pytest.fixture(scope="module")
def broker(folders: tuple[Path, Path]) -> Iterator[BrokerThread]:
    with BrokerThread(folders[0].parent, log_dirs=folders) as running:
        yield running


def move(
    wire: WireClient, *moves: tuple[Path | str, str, int], version: int = 2
) -> dict[tuple[str, int], int]:
    dirs = [
        m.AlterReplicaLogDirsRequestDir(
            path=str(path), topics=[m.AlterReplicaLogDirsRequestTopic(topic, [index])]
        )
        for path, topic, index in moves
    ]
    answer = wire.ask(m.AlterReplicaLogDirsRequest(dirs=dirs), version)
    return {
        (topic.topic_name, each.partition_index): each.error_code
        for topic in answer.results
        for each in topic.partitions
    }


def home_of(wire: WireClient, topic: str) -> str:
    for found in wire.ask(m.DescribeLogDirsRequest(topics=None), 4).results:
        if topic in [each.name for each in found.topics]:
            return found.log_dir
    raise AssertionError(f"{topic} is nowhere")


@pytest.mark.parametrize("version", [1, 2])
def test_a_log_stays_where_it_is_and_that_is_said(
    wire: WireClient, folders: tuple[Path, Path], version: int
) -> None:
    """``kafka-reassign-partitions`` with log directories closed the connection of its admin client,
    since the API was not served, and tried again until its time was up."""
    topic = fresh()
    create(wire, topic)
    here = home_of(wire, topic)
    (there,) = (str(each) for each in folders if str(each) != here)
    assert move(wire, (here, topic, 0), version=version) == {(topic, 0): 0}
    assert move(wire, (f"{here}/", topic, 0), version=version) == {(topic, 0): 0}
    refused = {(topic, 0): CODES["POLICY_VIOLATION"]}
    assert move(wire, (there, topic, 0), version=version) == refused
    assert home_of(wire, topic) == here
    both = ((there, topic, 0), (here, topic, 0))
    assert move(wire, *both, version=version) == {(topic, 0): 0}, "the last one counts"


def test_what_is_not_there_is_said(wire: WireClient, folders: tuple[Path, Path]) -> None:
    topic = fresh()
    create(wire, topic)
    for path in ("/nowhere", "relative", ""):
        assert move(wire, (path, topic, 0)) == {(topic, 0): CODES["LOG_DIR_NOT_FOUND"]}
    unknown = CODES["UNKNOWN_TOPIC_OR_PARTITION"]
    found = move(wire, (folders[0], topic, 9), (folders[0], "nope", 0))
    assert found == {(topic, 9): unknown, ("nope", 0): unknown}
    assert move(wire) == {}


def test_a_directory_whose_disk_has_failed_takes_nothing(tmp_path: Path) -> None:
    good, bad = tmp_path / "good", tmp_path / "bad"
    bad.write_text("not a folder")
    with (
        BrokerThread(tmp_path, log_dirs=(good, bad)) as running,
        WireClient(running.bootstrap_servers) as wire,
    ):
        topic = fresh()
        create(wire, topic)
        assert move(wire, (bad, topic, 0)) == {(topic, 0): CODES["KAFKA_STORAGE_ERROR"]}


def test_a_plan_for_all_partitions_holds_nobody_up() -> None:
    """A plan that named every partition of a broker with thousands of them: each was looked up in
    the list of all logs, in one turn of the event loop, and nobody else was served for seconds."""
    count, looked = 1000, 0

    class Logs(tuple[LogInfo, ...]):
        def __iter__(self) -> Iterator[LogInfo]:
            nonlocal looked
            looked += 1
            return super().__iter__()

    logs = Logs(LogInfo(LogKey("t", n), 0, 0, 0) for n in range(count))
    state: Any = SimpleNamespace(
        logs=SimpleNamespace(dirs=lambda: [DirInfo("/d", None, -1, -1, logs)]),
        authorizer=SimpleNamespace(may=lambda *_: True),
    )
    call: Any = SimpleNamespace(connection=SimpleNamespace(principal="User:a"))
    topic = m.AlterReplicaLogDirsRequestTopic("t", range(count))
    asked = m.AlterReplicaLogDirsRequestDir(path="/d", topics=[topic])

    async def story() -> tuple[m.AlterReplicaLogDirsResponse, int]:
        answering = asyncio.create_task(
            k34.handle(state, m.AlterReplicaLogDirsRequest(dirs=[asked]), call)
        )
        await asyncio.sleep(0)
        while not looked:
            await asyncio.sleep(0.001)
        turns = 0
        while not answering.done():
            await asyncio.sleep(0)
            turns += 1
        return answering.result(), turns

    answer, turns = asyncio.run(story())
    assert [each.error_code for each in answer.results[0].partitions] == [0] * count
    assert looked == 1
    assert turns > 10
