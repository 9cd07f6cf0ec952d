"""The time that a broker needs to start with many partitions; prints one line for each figure.

::

    python bench/start.py [--partitions 10000] [--per-topic 100] [--zookeeper] [--data FOLDER]

Creates the topics, writes one message into each partition, stops cleanly, starts again, kills,
starts again. Times are those of ``Broker.start``, measured from outside: from the process's first
line to "ready".
"""

from __future__ import annotations

import argparse
import contextlib
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from tallymark.protocol.messages import (
    CreateTopicsRequest,
    CreateTopicsRequestTopic,
    ProduceRequest,
    ProduceRequestPartition,
    ProduceRequestTopic,
)
from tallymark.protocol.records.batch import encode_batch
from tallymark.testing.wire import WireClient
from tallymark.testing.zookeeper import ZooKeeperServer, free_port


class Process:
    """``tallymark broker`` on ``folder``."""

    def __init__(self, folder: Path, zookeeper: str) -> None:
        self.address = f"127.0.0.1:{free_port()}"
        self._log = folder / "broker.log"
        self._command = [
            *(sys.executable, "-m", "tallymark", "broker", "--data", str(folder / "data")),
            *("--port", self.address.rpartition(":")[2]),
            *(("--set", f"zookeeper.connect={zookeeper}/bench") if zookeeper else ()),
            *(() if zookeeper else ("--no-zookeeper",)),
        ]
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> float:
        """Start the broker; returns the seconds until it is ready."""
        began = time.monotonic()
        with self._log.open("ab") as log:
            begin = log.tell()
            self._process = subprocess.Popen(self._command, stdout=log, stderr=log)
        while f"ready {self.address}".encode() not in self._log.read_bytes()[begin:]:
            if self._process.poll() is not None:
                raise SystemExit(self._log.read_text()[-2000:])
            time.sleep(0.02)
        return time.monotonic() - began

    def stop(self) -> float:
        """Stop it cleanly; returns the seconds until it has stopped."""
        assert self._process is not None
        began = time.monotonic()
        self._process.terminate()
        self._process.wait(120)
        return time.monotonic() - began

    def kill(self) -> None:
        """Kill it, as in a crash."""
        assert self._process is not None
        self._process.kill()
        self._process.wait()

    def cpu(self) -> float:
        """Seconds of processor time that it has used: the better figure on a busy machine."""
        assert self._process is not None
        fields = Path(f"/proc/{self._process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def memory(self) -> float:
        """Its memory in megabytes."""
        assert self._process is not None
        status = Path(f"/proc/{self._process.pid}/status").read_text()
        return next(int(line.split()[1]) / 1024 for line in status.splitlines() if "VmRSS" in line)


def make(address: str, topics: int, per_topic: int) -> float:
    """Create the topics, one request for each; returns the seconds."""
    began = time.monotonic()
    with WireClient(address, timeout=300) as wire:
        for number in range(topics):
            topic = CreateTopicsRequestTopic(
                name=f"bench-{number:05d}", num_partitions=per_topic, replication_factor=1
            )
            request = CreateTopicsRequest(topics=[topic], timeout_ms=120_000)
            answer = wire.ask(request, 7).topics[0]
            if answer.error_code:
                raise SystemExit(f"{answer.name}: {answer.error_message}")
    return time.monotonic() - began


def fill(address: str, topics: int, per_topic: int) -> None:
    """Write one message into each partition."""
    with WireClient(address, timeout=300) as wire:
        for number in range(topics):
            parts = [
                ProduceRequestPartition(index=i, records=encode_batch([(None, b"x", (), 1)]))
                for i in range(per_topic)
            ]
            topic = ProduceRequestTopic(name=f"bench-{number:05d}", partition_data=parts)
            wire.ask(ProduceRequest(acks=-1, timeout_ms=60_000, topic_data=[topic]), 9)


@contextlib.contextmanager
def ensemble(folder: Path, wanted: bool) -> Iterator[str]:
    """The address of a ZooKeeper if ``wanted``, else an empty text."""
    if not wanted:
        yield ""
        return
    with ZooKeeperServer(folder) as server:
        yield server.connect


def main() -> None:
    """Parse, run, print."""
    parser = argparse.ArgumentParser(description="How long a start takes.")
    parser.add_argument("--partitions", type=int, default=10_000)
    parser.add_argument("--per-topic", type=int, default=100)
    parser.add_argument("--zookeeper", action="store_true")
    parser.add_argument("--data", type=Path)
    options = parser.parse_args()
    topics = max(1, options.partitions // options.per_topic)
    with contextlib.ExitStack() as stack:
        folder = options.data or Path(stack.enter_context(tempfile.TemporaryDirectory()))
        process = Process(folder, stack.enter_context(ensemble(folder, options.zookeeper)))
        print(f"start, empty:             {process.start():6.2f} s")
        stack.callback(process.kill)
        seconds = make(process.address, topics, options.per_topic)
        count = topics * options.per_topic
        print(f"create {count} partitions: {seconds:6.2f} s ({1000 * seconds / count:.2f} ms each)")
        fill(process.address, topics, options.per_topic)
        print(f"clean stop:               {process.stop():6.2f} s")
        print(
            f"start after a clean stop: {process.start():6.2f} s "
            f"({process.cpu():.2f} s of processor, {process.memory():.0f} MB)"
        )
        fill(process.address, topics, options.per_topic)
        process.kill()
        print(
            f"start after a kill:       {process.start():6.2f} s "
            f"({process.cpu():.2f} s of processor)"
        )
        print(f"clean stop:               {process.stop():6.2f} s")


if __name__ == "__main__":
    main()
