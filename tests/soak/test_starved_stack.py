"""A whole stack whose machine runs out of disk, of descriptors, of memory while messages are
published: nothing that was acknowledged is lost, and when there is room again everything goes on by
itself and the audit says so."""

from __future__ import annotations

import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import psutil
import pytest
from as_before import assert_as_before
from eventually import eventually
from running_stack import WINDOW_MS, Stack, stack_in

from tallymark import Producer
from tallymark.client import SimpleConsumer
from tallymark_audit.store import open_store
from tallymark_audit.store.reading import queries

pytestmark = [pytest.mark.process, pytest.mark.soak, pytest.mark.timeout(1200)]

MIB = 1 << 20
TOPIC = "orders"
STARVED_S = 20.0
PATIENCE = 180.0
EDGES = ("producer-to-dc1", "dc1-to-aggregate")


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """In memory. ``up`` starts with no less than 1 GiB. Needs root."""
    folder = tmp_path / "disk"
    folder.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=1500m", "tmpfs", str(folder)]
    if subprocess.run(command, capture_output=True).returncode:
        pytest.skip("no file system can be mounted here")
    yield folder
    subprocess.run(["umount", "--lazy", str(folder)], check=True)


def test_the_disk_of_a_whole_stack_is_full(tmp_path: Path, small_disk: Path) -> None:
    with stack_in(tmp_path, small_disk / "data") as stack:
        ballast = small_disk / "ballast"

        def fill() -> None:
            with ballast.open("wb", buffering=0) as file, suppress(OSError):
                while True:
                    file.write(bytes(MIB))

        starve(stack, fill, ballast.unlink)


def test_the_processes_of_a_whole_stack_are_out_of_descriptors(tmp_path: Path) -> None:
    """Also for strangers' connections, of which there are many."""
    with stack_in(tmp_path, tmp_path / "data") as stack, ExitStack() as strangers:

        def take() -> None:
            for process in python_processes(stack):
                limit(process, psutil.RLIMIT_NOFILE, process.num_fds() + 3)
            for broker in stack.deployment.cluster("dc1").brokers:
                for _ in range(100):
                    with suppress(OSError):
                        there = broker.host, broker.port
                        strangers.enter_context(socket.create_connection(there, 2))

        def give() -> None:
            strangers.close()
            for process in python_processes(stack):
                limit(process, psutil.RLIMIT_NOFILE, 0)

        starve(stack, take, give)


def test_the_processes_of_a_whole_stack_are_out_of_memory(tmp_path: Path) -> None:
    with stack_in(tmp_path, tmp_path / "data") as stack:

        def take() -> None:
            for process in python_processes(stack):
                limit(process, psutil.RLIMIT_AS, process.memory_info().vms + 8 * MIB)
            with Producer(bootstrap_servers=servers(stack, "dc1"), audit=False) as producer:
                sent = [producer.send("large", bytes(900_000)) for _ in range(60)]
                for one in sent:
                    with suppress(Exception):
                        one.result(10)

        def give() -> None:
            for process in python_processes(stack):
                limit(process, psutil.RLIMIT_AS, 0)

        starve(stack, take, give)


def starve(stack: Stack, take: Callable[[], None], give: Callable[[], None]) -> None:
    """Publish; take something away for a while; give it back; see that all is as it should be."""
    stack.publisher("dc1", TOPIC, "a")
    eventually(lambda: len(stack.acked("a")) > 500, seconds=PATIENCE, what="it is published")
    eventually(lambda: passed(stack, 0), seconds=PATIENCE, what="windows are judged")
    before = acknowledgements(stack)
    with free_again(give):
        take()
        time.sleep(STARVED_S)
    began, known = time.time_ns() // 1_000_000, len(stack.acked("a"))
    eventually(
        lambda: len(stack.acked("a")) > known + 500, seconds=PATIENCE, what="publishing goes on"
    )
    time.sleep(3 * WINDOW_MS / 1000)
    eventually(lambda: passed(stack, began), seconds=PATIENCE, what="the audit goes on")
    assert_as_before(before, acknowledgements(stack), 0.003, "an acknowledgement, s")
    stack.stop_publishers()
    acked = stack.acked("a")
    assert acked <= values(stack, "dc1"), "acknowledged, but not in the log"
    eventually(
        lambda: acked <= values(stack, "aggregate"), seconds=PATIENCE, what="all is mirrored"
    )
    eventually(lambda: passed(stack, began), seconds=PATIENCE, what="the audit goes on")
    eventually(lambda: not lost(stack), seconds=PATIENCE, what="nothing is called lost")
    code, said = stack.command("status")
    assert code == 0, said


def acknowledgements(stack: Stack, times: int = 200) -> list[float]:
    """How long a message takes that waits for nobody but the broker, in seconds."""
    found: list[float] = []
    with Producer(bootstrap_servers=servers(stack, "dc1"), audit=False, linger_ms=0) as producer:
        producer.send("probe", b"p").result(60)
        for _ in range(times):
            time.sleep(0.02)
            began = time.monotonic()
            producer.send("probe", b"p").result(60)
            found.append(time.monotonic() - began)
    return found


@contextmanager
def free_again(give: Callable[[], None]) -> Iterator[None]:
    try:
        yield
    finally:
        give()


def passed(stack: Stack, since: int) -> bool:
    """Whether a window after ``since`` (ms) is judged on every edge, and none waits."""
    with open_store(stack.deployment.audit_store) as store, store.read() as connection:
        found = {one.edge: one for one in queries.overview(connection) if one.topic == TOPIC}
    return all(
        edge in found and found[edge].last_window >= since and found[edge].states.get("COMPLETE")
        for edge in EDGES
    )


def lost(stack: Stack) -> list[str]:
    with open_store(stack.deployment.audit_store) as store, store.read() as connection:
        return [
            f"{one.edge}: {one.states}"
            for one in queries.overview(connection)
            if one.topic == TOPIC
            and (one.missing or {"LOSS", "MIXED", "UNKNOWN", "SETTLING"} & one.states.keys())
        ]


def values(stack: Stack, cluster: str) -> set[bytes]:
    """All that the cluster has of the topic."""
    found: set[bytes] = set()
    with SimpleConsumer(bootstrap_servers=servers(stack, cluster)) as consumer:
        for partition, end in consumer.end_offsets(TOPIC).items():
            offset = consumer.start_offsets(TOPIC)[partition]
            while offset < end:
                fetched = consumer.fetch(TOPIC, partition, offset)
                found |= {one.value for one in fetched if one.value is not None}
                offset = max(fetched.next_offset, offset + 1)
    return found


def servers(stack: Stack, cluster: str) -> str:
    return stack.deployment.cluster(cluster).bootstrap_servers


def python_processes(stack: Stack) -> list[psutil.Process]:
    """All of the stack but Java's, and but the supervisor."""
    children = psutil.Process(stack.up.pid).children(recursive=True)
    return [one for one in children if "python" in one.name()]


def limit(process: psutil.Process, kind: int, most: int) -> None:
    """The soft limit of a process that runs; 0: what its hard one is."""
    with suppress(psutil.Error):
        hard = process.rlimit(kind)[1]
        process.rlimit(kind, (most or hard, hard))
