"""With ``flush.before.expose`` a commit is answered when it is on the disk."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from eventually import eventually

from tallymark.protocol.messages import (
    CreateTopicsRequest,
    FindCoordinatorRequest,
    OffsetCommitRequest,
    OffsetFetchRequest,
)
from tallymark.protocol.messages.k08_offset_commit import (
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from tallymark.protocol.messages.k09_offset_fetch import OffsetFetchRequestTopic
from tallymark.protocol.messages.k19_create_topics import CreateTopicsRequestTopic
from tallymark.testing import BrokerThread
from tallymark.testing.memory_files import MemoryFiles
from tallymark.testing.wire import WireClient


class KeptFiles(MemoryFiles):
    """Remembers what was on the disk when it was asked."""

    def unsynced_commits(self, folder: str) -> int:
        """How many bytes of the group's log a power failure would take."""
        path = f"{folder}/__consumer_offsets-0/00000000000000000000.log"
        return len(self.content(path)) - len(self.durable(path))


def commit_of(offset: int) -> OffsetCommitRequest:
    part = OffsetCommitRequestPartition(partition_index=0, committed_offset=offset)
    topic: Any = OffsetCommitRequestTopic(name="t", partitions=(part,))
    return OffsetCommitRequest(
        group_id="g", generation_id_or_member_epoch=-1, member_id="", topics=(topic,)
    )


def test_an_acknowledged_commit_is_on_the_disk(tmp_path: Path) -> None:
    """Seed 66 of the simulation: with ``flush.before.expose`` producers waited for the flush,
    commits of groups did not. A power failure took commits that were acknowledged, and the group
    read 14 records a second time."""
    files = KeptFiles()
    broker = BrokerThread(
        tmp_path,
        files=files,
        log_flush_before_expose=True,
        log_flush_interval_ms=3_600_000,
    )
    with broker, WireClient(broker.bootstrap_servers) as client:
        made = CreateTopicsRequestTopic(name="t", num_partitions=1, replication_factor=1)
        client.ask(CreateTopicsRequest(topics=(made,)), 5)
        client.ask(FindCoordinatorRequest(key="g"), 1)
        folder = str(broker.settings.log_dirs[0])
        eventually(lambda: client.ask(commit_of(0), 7).topics[0].partitions[0].error_code == 0)
        for offset in range(20):
            answer = client.ask(commit_of(offset), 7)
            assert answer.topics[0].partitions[0].error_code == 0
            assert files.unsynced_commits(folder) == 0
        asked = OffsetFetchRequestTopic(name="t", partition_indexes=(0,))
        for version in (1, 5):
            found = client.ask(OffsetFetchRequest(group_id="g", topics=(asked,)), version)
            assert found.topics[0].partitions[0].committed_offset == 19
