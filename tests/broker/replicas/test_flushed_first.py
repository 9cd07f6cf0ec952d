"""Logs with ``flush.before.expose`` have all that was reported, also after a power failure: which
count so, and from when to when."""

from __future__ import annotations

from pathlib import Path
from uuid import UUID

import pytest
from brokers_in_memory import BrokersInMemory
from eventually import eventually

from tallymark import Admin
from tallymark.broker.replicas.local_logs import LocalLogs
from tallymark.client.admin.configs import ConfigResource
from tallymark.log import LogConfig, LogManager
from tallymark.log.disk.kept_offsets import FLUSHED_FIRST
from tallymark.log.disk.partition_folder import LogKey
from tallymark.testing.memory_files import MemoryFiles

THEN = "aaaaaaaa-0000-4000-8000-aaaaaaaaaaaa"
NOW = "bbbbbbbb-0000-4000-8000-bbbbbbbbbbbb"
KEY, OTHER = LogKey("t", 0), LogKey("u", 0)
ID, OTHER_ID = UUID(int=5 << 100), UUID(int=6 << 100)


def opened(files: MemoryFiles) -> LogManager:
    return LogManager.open(files, ("/d",), LogConfig(), broker_id=1, now_ms=0)


def intact(files: MemoryFiles, boot: str = NOW) -> dict[str, bool]:
    """At a start after a power failure."""
    files.lose_unsynced()
    found = LocalLogs(opened(files), files, boot).logs([KEY, OTHER])
    return {key[0]: log.intact for key, log in found.items()}


def first_life(files: MemoryFiles) -> LogManager:
    manager = opened(files)
    LocalLogs(manager, files, THEN).remember_boot()
    manager.create(*KEY, ID, 0)
    manager.create(*OTHER, OTHER_ID, 0)
    return manager


def test_a_log_that_is_flushed_first_is_intact_and_no_other() -> None:
    """After a power failure of all brokers none could vote: the partition waited for an operator or
    for the last one, though nothing was missing anywhere."""
    files = MemoryFiles()
    manager = first_life(files)
    manager.flushed_first.note(KEY)
    manager.flushed_first.save()
    assert intact(files) == {"t": True, "u": False}


def test_what_was_noted_and_not_saved_or_was_revoked_is_no_claim() -> None:
    files = MemoryFiles()
    manager = first_life(files)
    manager.flushed_first.note(OTHER)
    manager.flushed_first.save()
    manager.flushed_first.note(KEY)
    manager.flushed_first.revoke([OTHER])
    manager.flushed_first.note(OTHER)
    assert intact(files) == {"t": True, "u": False}, "a revocation is on the disk at once"


def test_a_topic_of_the_same_name_inherits_nothing() -> None:
    files = MemoryFiles()
    manager = first_life(files)
    manager.flushed_first.note(KEY)
    manager.flushed_first.save()
    manager.delete(*KEY)
    manager.create(*KEY, UUID(int=7 << 100), 0)
    assert not manager.flushed_first.holds(KEY)
    assert intact(files) == {"t": False, "u": False}


def test_claims_are_those_of_the_process_before() -> None:
    """What is set now says nothing of what was reported then."""
    files = MemoryFiles()
    first_life(files)
    files.lose_unsynced()
    manager = opened(files)
    local = LocalLogs(manager, files, NOW)
    manager.flushed_first.note(KEY)
    assert not local.logs([KEY])[KEY].intact


@pytest.mark.parametrize("content", [b"", b"rubbish", b"0\n1\nt 0 x\n", b"0\n1\nt 0 1\n"])
def test_a_file_that_is_damaged_claims_nothing(content: bytes) -> None:
    files = MemoryFiles()
    first_life(files)
    files.overwrite(f"/d/{FLUSHED_FIRST}", content)
    assert intact(files) == {"t": False, "u": False}


def test_brokers_note_it_while_the_topic_is_set_so(tmp_path: Path) -> None:
    with BrokersInMemory(tmp_path, replica_high_watermark_checkpoint_interval_ms=50) as cluster:
        cluster.create("t", min_insync_replicas=2, flush_before_expose="true")
        cluster.create("plain", min_insync_replicas=2)
        for _ in range(3):
            assert cluster.produce("t", b"x").error_code == 0
            assert cluster.produce("plain", b"x").error_code == 0
        managers = [
            found.broker._manager for found in cluster.brokers.values() if found.broker is not None
        ]

        def noted(topic: str) -> list[bool]:
            key = LogKey(topic, 0)
            return [each.flushed_first.holds(key) for each in managers if each is not None]

        eventually(lambda: all(noted("t")))
        assert not any(noted("plain"))
        with Admin(bootstrap_servers=cluster.any_address) as admin:
            off = {ConfigResource("topic", "t"): {"flush.before.expose": "false"}}
            admin.alter_configs(off).check()
        eventually(lambda: not any(noted("t")))
