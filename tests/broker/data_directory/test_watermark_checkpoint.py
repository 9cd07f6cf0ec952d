"""A running broker writes the high watermarks of its partitions while it runs and when it stops."""

from __future__ import annotations

from pathlib import Path

from admin_wire import create, fresh
from eventually import eventually

from tallymark.client.producing.producer import Producer
from tallymark.log.disk.checkpoint import read_checkpoint
from tallymark.log.disk.files import OsFiles
from tallymark.log.disk.kept_offsets import HIGH_WATERMARKS
from tallymark.protocol.messages import DeleteTopicsRequest
from tallymark.testing.broker_thread import BrokerThread
from tallymark.testing.wire import WireClient


def send(broker: BrokerThread, topic: str, count: int) -> None:
    with Producer(bootstrap_servers=broker.bootstrap_servers, audit=False) as producer:
        for sent in [producer.send(topic, b"value") for _ in range(count)]:
            sent.result(60)


def written(folder: Path) -> dict[str, int]:
    """Topic -> the sum over its partitions, as the file has it."""
    found: dict[str, int] = {}
    for topic, _, offset in read_checkpoint(OsFiles(), f"{folder}/broker/{HIGH_WATERMARKS}", 3):
        found[topic] = found.get(topic, 0) + int(offset)
    return found


def test_high_watermarks_are_written_while_a_broker_runs(tmp_path: Path) -> None:
    """Written at a stop only, a broker that was killed would begin with those of its start."""
    with BrokerThread(tmp_path, replica_high_watermark_checkpoint_interval_ms=50) as broker:
        with WireClient(broker.bootstrap_servers) as wire:
            kept, gone = fresh(), fresh()
            create(wire, kept, 3)
            create(wire, gone)
            send(broker, kept, 7)
            send(broker, gone, 2)
            eventually(lambda: written(tmp_path) == {kept: 7, gone: 2})
            wire.ask(DeleteTopicsRequest(topic_names=[gone], timeout_ms=60_000), 5)
            eventually(lambda: written(tmp_path) == {kept: 7})
        send(broker, kept, 4)
        broker.stop()
        assert written(tmp_path) == {kept: 11}


def test_a_stop_writes_what_no_checkpoint_has(tmp_path: Path) -> None:
    with BrokerThread(tmp_path) as broker:  # the first checkpoint would come after 5 s
        topic = fresh()
        send(broker, topic, 3)
        broker.stop()
        assert written(tmp_path) == {topic: 3}
        broker.start()
        send(broker, topic, 2)
        broker.stop()
        assert written(tmp_path) == {topic: 5}
        (tmp_path / "broker" / HIGH_WATERMARKS).write_bytes(b"\x00garbage")
        broker.start()
        send(broker, topic, 1)
        broker.stop()
        assert written(tmp_path) == {topic: 6}
