"""The files that one ``send()`` crosses, as docs/architecture.md draws them.

The page named fourteen files on the way out while nobody could say which of them the record itself
goes through. So the drawing is held against a producer at work, in both of its threads.
"""

from __future__ import annotations

import sys
from pathlib import Path
from types import FrameType
from typing import Any, Final

from tallymark.client.producing.producer import Producer
from tallymark.testing.broker_thread import BrokerThread

ROOT: Final = Path(__file__).parents[3]
PLATFORM: Final = str(ROOT / "platform" / "tallymark") + "/"
TITLE: Final = "### The producer: from `send()` to the acknowledgement"
IO_THREAD: Final = "client/core/io_thread.py"


def drawn() -> list[list[str]]:
    """For each file of the drawing: the files from the outermost down to it."""
    page = (ROOT / "docs" / "architecture.md").read_text()
    drawing = page.split(TITLE)[1].split("```text\n")[1].split("```")[0]
    chains: list[list[str]] = []
    outer: list[str] = []
    for line in filter(str.strip, drawing.splitlines()):
        depth = (len(line) - len(line.lstrip())) // 2
        outer = [*outer[:depth], line.split()[0]]
        chains.append(outer)
    return chains


class Stacks:
    """The files of our code on the stack of one thread, at each call of a function."""

    def __init__(self) -> None:
        self.seen: list[list[str]] = []

    def __call__(self, frame: FrameType, event: str, _arg: Any) -> None:
        if event == "call" and frame.f_code.co_filename.startswith(PLATFORM):
            files: list[str] = []
            at: FrameType | None = frame
            while at is not None:
                name = at.f_code.co_filename.removeprefix(PLATFORM)
                if at.f_code.co_filename.startswith(PLATFORM) and files[-1:] != [name]:
                    files.append(name)
                at = at.f_back
            stack = [name for name in reversed(files) if name != IO_THREAD]
            if stack not in self.seen:
                self.seen.append(stack)


def traced(servers: str) -> tuple[Stacks, Stacks]:
    """Of the calling thread and of the I/O thread, during one send() to a topic in use."""
    here, there = Stacks(), Stacks()
    with Producer(bootstrap_servers=servers, audit=False) as producer:
        producer.send("orders", b"first").result(30)
        io = producer._core.io

        async def profile(stacks: Stacks | None) -> None:
            sys.setprofile(stacks)

        io.run(profile(there), 30)
        sys.setprofile(here)
        try:
            delivery = producer.send("orders", b"second")
        finally:
            sys.setprofile(None)
        delivery.result(30)
        io.run(profile(None), 30)
    return here, there


def test_a_send_crosses_the_files_that_are_drawn(tmp_path: Path) -> None:
    chains = drawn()
    files = {chain[-1] for chain in chains}
    assert len(files) == len(chains) == 9
    with BrokerThread(tmp_path) as broker:
        here, there = traced(broker.bootstrap_servers)
    for chain in chains:
        seen = here.seen if chain[0].endswith("producer.py") else there.seen
        assert chain in seen, (chain, seen)


def test_the_thread_that_sends_does_no_io(tmp_path: Path) -> None:
    with BrokerThread(tmp_path) as broker:
        here, _ = traced(broker.bootstrap_servers)
    files = {name for stack in here.seen for name in stack}
    assert "client/producing/batches/accumulator.py" in files
    assert not [name for name in files if name.startswith(("net/", "protocol/wire/"))]
