"""The files that one request crosses, as docs/architecture.md draws them.

The page said six files while the stack of a Produce showed ten: a gate, a second file of the
handler and helpers had come between. So the page is held against a broker at work.
"""

from __future__ import annotations

import asyncio
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any, Final

import pytest

from tallymark.broker.ports import Ports
from tallymark.broker.server import Broker
from tallymark.broker.settings.broker import BrokerSettings
from tallymark.net.client.connect import connect
from tallymark.protocol import messages as m
from tallymark.protocol.records.batch import encode_batch

ROOT: Final = Path(__file__).parents[2]
PLATFORM: Final = str(ROOT / "platform" / "tallymark") + "/"
NOW: Final = 1_700_000_000_000
BY_NAME: Final[dict[type, int]] = {m.FetchRequest: 12}
"""Versions that name topics."""


def drawn(title: str) -> list[str]:
    """The files of the first drawing below a heading of the page, from the outermost inwards."""
    page = (ROOT / "docs" / "architecture.md").read_text()
    drawing = page.split(f"### {title}")[1].split("```text\n")[1].split("```")[0]
    return [line.split()[0] for line in drawing.splitlines()]


class Stacks:
    """The files of our code on the stack, at every call of a function of ``last``."""

    def __init__(self, last: str) -> None:
        self.seen: list[list[str]] = []
        self._last = PLATFORM + last

    def __call__(self, frame: FrameType, event: str, _arg: Any) -> None:
        if event == "call" and frame.f_code.co_filename == self._last:
            files: list[str] = []
            at: FrameType | None = frame
            while at is not None:
                name = at.f_code.co_filename
                if name.startswith(PLATFORM) and (not files or files[-1] != name):
                    files.append(name)
                at = at.f_back
            self.seen.append([name.removeprefix(PLATFORM) for name in reversed(files)])


@contextmanager
def stacks(last: str) -> Iterator[Stacks]:
    found = Stacks(last)
    sys.setprofile(found)
    try:
        yield found
    finally:
        sys.setprofile(None)


async def crossed(tmp_path: Path, last: str, request: m.ProduceRequest | m.FetchRequest) -> Stacks:
    """Send one request to a broker on this loop, after a topic with a record was made."""
    settings = BrokerSettings(log_dirs=(tmp_path,), port=0, enable_zookeeper=False)
    broker = Broker(settings, Ports(now_ms=lambda: NOW))
    await broker.start()
    stream = await connect(*broker.address, client_id="spine")
    try:
        topic = m.CreateTopicsRequestTopic(
            name="orders", num_partitions=1, replication_factor=1, assignments=(), configs=()
        )
        await stream.request(m.CreateTopicsRequest(topics=[topic], timeout_ms=5_000))
        await stream.request(produce())
        with stacks(last) as found:
            await stream.request(request, BY_NAME.get(type(request)))
    finally:
        await stream.close()
        await broker.stop()
    return found


def produce() -> m.ProduceRequest:
    batch = encode_batch([(b"key", b"value", (), NOW)])
    part = m.ProduceRequestPartition(index=0, records=batch)
    topic = m.ProduceRequestTopic(name="orders", partition_data=[part])
    return m.ProduceRequest(acks=-1, timeout_ms=1_000, topic_data=[topic])


def fetch() -> m.FetchRequest:
    part = m.FetchRequestPartition(partition=0, fetch_offset=0, partition_max_bytes=1 << 20)
    topic = m.FetchRequestTopic(topic="orders", partitions=[part])
    return m.FetchRequest(max_wait_ms=0, min_bytes=1, max_bytes=1 << 20, topics=[topic])


@pytest.mark.parametrize(
    ("title", "length", "request_of"),
    [("Produce: from the socket to the disk", 6, produce), ("Fetch: the long poll", 7, fetch)],
)
def test_a_request_crosses_the_files_that_are_drawn(
    tmp_path: Path, title: str, length: int, request_of: Any
) -> None:
    spine = drawn(title)
    assert len(spine) == length
    found = asyncio.run(crossed(tmp_path, spine[-1], request_of()))
    assert spine in found.seen, found.seen


def test_what_is_drawn_exists() -> None:
    page = (ROOT / "docs" / "architecture.md").read_text()
    for drawing in re.findall(r"```text\n(.*?)```", page.split("## The walked paths")[1], re.S):
        for name in re.findall(r"^ *([\w/]+\.py)\b", drawing, re.M):
            assert Path(PLATFORM + name).is_file(), name
