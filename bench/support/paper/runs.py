"""One run: a new broker, a producer, what is on the disk, a consumer. Only the broker that is
measured runs: an idle one of Java takes processor time, too."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Protocol

from support.apache_kafka import apache_kafka
from support.measure import cpu_seconds, warm_page_cache
from support.own_broker import OwnBroker
from support.paper.servers import ActiveMq, NatsJetStream, RabbitMq

from tallymark.client import Admin

SIZE: Final = 200
TOPIC: Final = "paper"
_PYTHON: Final = Path(__file__).with_name("python_clients.py")
_SETTLE_SECONDS: Final = 10.0


class Server(Protocol):
    """A broker's process."""

    @property
    def pid(self) -> int | None: ...
    @property
    def address(self) -> str: ...
    @property
    def data(self) -> Path: ...
    def start(self) -> None: ...
    def stop(self) -> None: ...


@dataclass(frozen=True)
class Product:
    """``java`` and ``python`` are its clients as the table names them, ``protocol`` names the Java
    one in its process. ``batches`` is (0,) where a client sends each message by itself."""

    key: str
    name: str
    server: Callable[[Path], Server]
    protocol: str
    java: str
    python: str
    batches: tuple[int, ...] = (0,)


_KAFKA: Final = ("kafka", "kafka-clients")
PRODUCTS: Final = (
    Product("tallymark", "Tallymark", OwnBroker, *_KAFKA, "tallymark", (1, 50)),
    Product("kafka", "Apache Kafka", apache_kafka, *_KAFKA, "confluent-kafka", (1, 50)),
    Product("activemq", "ActiveMQ", ActiveMq, "activemq", "activemq-client", "stomp.py"),
    Product("rabbitmq", "RabbitMQ", RabbitMq, "rabbitmq", "amqp-client", "pika"),
    Product("nats", "NATS JetStream", NatsJetStream, "nats", "jnats", "nats-py"),
)


@dataclass(frozen=True)
class Run:
    """``language`` is ``java`` or ``python``; a batch of 0 means that there are none."""

    product: Product
    language: str
    batch: int
    count: int

    @property
    def client(self) -> str:
        """The name of the client."""
        return self.product.java if self.language == "java" else self.product.python


@dataclass(frozen=True)
class Measured:
    """What one job took. ``disk_bytes`` are those that the producer's messages take in files;
    ``marks`` are the seconds at which each twentieth of the messages was there."""

    product: str
    client: str
    language: str
    batch: int
    job: str
    messages: int
    seconds: float
    client_cpu: float
    broker_cpu: float
    disk_bytes: int
    marks: tuple[float, ...]


class CountError(RuntimeError):
    """Not as many messages were consumed as were sent."""


def planned(
    products: tuple[Product, ...], counts: dict[str, int], single: float = 1.0
) -> Iterator[Run]:
    """All runs; the products take turns. ``counts`` are messages by language, of which runs in
    batches of one message send the share ``single``."""
    for language, count in counts.items():
        for place in range(2):
            for product in products:
                if place < len(product.batches):
                    batch = product.batches[place]
                    share = single if batch == 1 else 1.0
                    yield Run(product, language, batch, max(1, int(count * share)))


def measure(run: Run, folder: Path, java: list[str], warm: int) -> list[Measured]:
    """The producer's and the consumer's measures; CountError unless each counted all messages.
    Without ``java``, which is the command of its client, nothing is warmed up."""
    server = run.product.server(folder)
    try:
        server.start()
        if run.product.protocol == "kafka":
            _make_topics(server.address)
        if run.language == "python" and java:  # both kinds of runs find a warm broker
            _client(server, run, java, "produce", count=0, warm=warm)
        warm_page_cache(folder, run.count * SIZE)
        sent, sent_cpu, before = _client(server, run, java, "produce", run.count, warm)
        check_count(run, "produce", sent)
        stored = _settled(server.data) - before
        read, read_cpu, _ = _client(server, run, java, "consume", run.count, warm)
        check_count(run, "consume", read)
        return [
            _measured(run, "produce", sent, sent_cpu, stored),
            _measured(run, "consume", read, read_cpu, stored),
        ]
    finally:
        server.stop()
        shutil.rmtree(folder, ignore_errors=True)


def check_count(run: Run, job: str, result: dict[str, Any]) -> None:
    """CountError unless the job counted the run's messages, no more and no fewer."""
    expected = (run.count, run.count * SIZE)
    if (result["messages"], result["bytes"]) != expected:
        raise CountError(
            f"{run.product.name}, {run.client}: {job} counted {result['messages']} messages of "
            f"{result['bytes']} bytes, not {expected[0]} of {expected[1]}"
        )


def disk_bytes(folder: Path) -> int:
    """Bytes of all files: of sparse ones (ActiveMQ's journals, Apache Kafka's indexes) only what is
    written."""
    total = 0
    for path in folder.rglob("*"):
        try:
            if path.is_file():
                found = path.stat()
                total += min(found.st_size, found.st_blocks * 512)
        except FileNotFoundError:  # deleted meanwhile
            continue
    return total


def _settled(folder: Path) -> int:
    # RabbitMQ writes the rest of a queue when it is idle.
    before, ends = -1, time.monotonic() + _SETTLE_SECONDS
    while (now := disk_bytes(folder)) != before and time.monotonic() < ends:
        before = now
        time.sleep(0.5)
    return now


def _make_topics(address: str) -> None:
    with Admin(bootstrap_servers=address) as admin:
        for topic in ("warm", TOPIC):
            admin.create_topic(topic, 1)


def _measured(run: Run, job: str, result: dict[str, Any], cpu: float, stored: int) -> Measured:
    return Measured(
        product=run.product.name,
        client=run.client,
        language=run.language,
        batch=run.batch,
        job=job,
        messages=result["messages"],
        seconds=result["seconds"],
        client_cpu=result["client_cpu_seconds"],
        broker_cpu=cpu,
        disk_bytes=stored,
        marks=tuple(result["marks"]),
    )


def _client(
    server: Server, run: Run, java: list[str], job: str, count: int, warm: int
) -> tuple[dict[str, Any], float, int]:
    """One client's measures, the processor time of the broker meanwhile, and the bytes on the disk
    before."""
    if run.language == "java" or not count:
        given = [job, run.product.protocol, server.address, TOPIC]
        command = [*java, *given, *map(str, (count, SIZE, run.batch, warm))]
    else:
        what = {"product": run.product.key, "job": job, "topic": TOPIC, "count": count}
        what |= {"address": server.address, "size": SIZE, "batch": run.batch}
        if isinstance(server, ActiveMq):
            what["stomp"] = f"{server.host}:{server.stomp_port}"
        command = [sys.executable, str(_PYTHON), json.dumps(what)]
    process = subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stdout
    assert server.pid
    try:
        if process.stdout.readline() != "ready\n":
            raise _failed(run, job, process)
        stored = _settled(server.data) if job == "produce" else 0
        before = cpu_seconds(server.pid)
        said, errors = process.communicate("\n", timeout=600 + count / 500)
        after = cpu_seconds(server.pid)
    finally:
        process.kill()
    if process.returncode:
        raise RuntimeError(f"{run.product.name}, {run.client}: {job} failed:\n{errors[-2000:]}")
    return json.loads(said.splitlines()[-1]), after - before, stored


def _failed(run: Run, job: str, process: subprocess.Popen[str]) -> RuntimeError:
    errors = process.communicate(timeout=60)[1]
    return RuntimeError(f"{run.product.name}, {run.client}: {job} did not begin:\n{errors[-2000:]}")
