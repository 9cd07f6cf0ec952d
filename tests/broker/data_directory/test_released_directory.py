"""A data directory as released brokers left it opens without change."""

from __future__ import annotations

from pathlib import Path

import pytest

from tallymark.client.producing.producer import Producer
from tallymark.log.disk.kept_offsets import HIGH_WATERMARKS
from tallymark.testing.broker_thread import BrokerThread
from tallymark.testing.reading import read_topic

NEW = (HIGH_WATERMARKS,)
"""What a directory of a released broker has not."""
GONE = (".kafka_cleanshutdown", ".lock")
"""What says how the last run ended: there while stopped, or while running."""


def send(broker: BrokerThread, *values: bytes) -> None:
    with Producer(bootstrap_servers=broker.bootstrap_servers, audit=False) as producer:
        for sent in [producer.send("orders", value) for value in values]:
            sent.result(60)


def read(broker: BrokerThread) -> list[bytes | None]:
    return [message.value for message in read_topic(broker.bootstrap_servers, "orders")]


def contents(folder: Path) -> dict[str, bytes]:
    """The files of a data directory that a start leaves as they are."""
    files = [each for each in folder.rglob("*") if each.is_file()]
    kept = [each for each in files if each.name not in (*NEW, *GONE)]
    return {str(each.relative_to(folder)): each.read_bytes() for each in kept}


@pytest.mark.parametrize("clean", [True, False], ids=["stopped", "killed"])
def test_a_directory_of_a_released_broker_opens_without_change(tmp_path: Path, clean: bool) -> None:
    """A broker that is upgraded must find what the one before it has left, and needs no step
    before. The other way works too: older brokers leave files alone that they do not know."""
    values = [b"value %d" % number for number in range(20)]
    with BrokerThread(tmp_path) as broker:
        send(broker, *values)
        broker.stop() if clean else broker.kill()
        for name in NEW:
            (tmp_path / "broker" / name).unlink(missing_ok=True)
        before = contents(tmp_path / "broker")
        broker.start()
        assert read(broker) == values
        if clean:
            assert contents(tmp_path / "broker") == before
        send(broker, b"more")
        assert read(broker) == [*values, b"more"]
        broker.stop()
        for name in NEW:  # an older broker ran in between
            (tmp_path / "broker" / name).write_bytes(b"0\n1\norders 0 3\n")
        broker.start()
        assert read(broker) == [*values, b"more"]
