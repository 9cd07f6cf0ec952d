"""The clients' side of the benchmarks, as a process of its own: one job, its result as JSON.

``python clients.py '{"job": "produce", "driver": "librdkafka", ...}'``. Drivers: ``librdkafka``
(confluent-kafka), ``tallymark`` (our client), ``frames`` (prepared requests, sent unchanged: a
client that costs next to nothing). Seconds are those of the work itself, without start and connect.
"""

from __future__ import annotations

import json
import socket
import struct
import sys
import time
from random import Random
from typing import Any, Final

from confluent_kafka import OFFSET_BEGINNING, Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from tallymark.protocol.frames import decode_response, encode_request
from tallymark.protocol.messages import (
    FetchRequest,
    FetchRequestPartition,
    FetchRequestTopic,
    ListOffsetsRequest,
    ListOffsetsRequestPartition,
    ListOffsetsRequestTopic,
    ProduceRequest,
    ProduceRequestPartition,
    ProduceRequestTopic,
)
from tallymark.protocol.records.batch import HEADER_SIZE, encode_batch, read_header

Job = dict[str, Any]
Result = dict[str, float]

_CHUNK: Final = 1000


def main() -> None:
    job: Job = json.loads(sys.argv[1])
    jobs: dict[str, Any] = {
        "make": make,
        "delete": delete,
        "produce": globals().get(f"produce_{job.get('driver')}"),
        "consume": globals().get(f"consume_{job.get('driver')}"),
        "latency": latency,
        "scatter": scatter,
    }
    print(json.dumps(jobs[job["job"]](job)))


def make(job: Job) -> Result:
    """Create a topic of one partition."""
    admin = AdminClient({"bootstrap.servers": job["servers"]})
    for future in admin.create_topics([NewTopic(job["topic"], 1, 1)]).values():
        future.result(30)
    return {}


def delete(job: Job) -> Result:
    """Delete a topic, so that its memory can be used again."""
    admin = AdminClient({"bootstrap.servers": job["servers"]})
    for future in admin.delete_topics([job["topic"]]).values():
        future.result(30)
    return {}


# --- produce


def produce_librdkafka(job: Job) -> Result:
    """``count`` messages, or as many as are sent in ``seconds``; at most ``most_waiting`` of them
    have no answer yet."""
    failures: list[str] = []

    def done(error: Any, message: Any) -> None:
        if error is not None:
            failures.append(str(error))

    producer = Producer(
        {
            "bootstrap.servers": job["servers"],
            "acks": job.get("acks", "1"),
            "linger.ms": job["linger_ms"],
            "batch.num.messages": job["batch"],
            "queue.buffering.max.messages": 200_000,
            "queue.buffering.max.kbytes": 512_000,
        }
    )
    producer.list_topics(job["topic"], 30)  # connected
    topic, sent, most = job["topic"], 0, job.get("most_waiting", 150_000)
    chunk = [{"value": b"x" * job["size"]} for _ in range(job.get("chunk", _CHUNK))]
    began = time.perf_counter()
    until = began + job.get("seconds", 1e9)
    while sent <= job.get("count", 10**9) - len(chunk) and time.perf_counter() < until:
        while len(producer) > most:
            producer.poll(0.001)
        producer.produce_batch(topic, chunk, 0)
        producer.poll(0)
        sent += len(chunk)
    producer.flush(120)
    seconds = time.perf_counter() - began
    if len(producer) or failures:
        raise RuntimeError(f"{len(producer)} messages are left, {failures[:1]}")
    return {"messages": sent, "seconds": seconds}


def produce_tallymark(job: Job) -> Result:
    from tallymark import Producer as OwnProducer

    value, count, topic = b"x" * job["size"], job["count"], job["topic"]
    with OwnProducer(
        bootstrap_servers=job["servers"], audit=False, stamp=True, linger_ms=job["linger_ms"]
    ) as producer:
        producer.send(topic, value).result(30)
        began = time.perf_counter()
        for _ in range(count - 1):
            producer.send(topic, value)
        producer.flush(120)
        seconds = time.perf_counter() - began
    return {"messages": count, "seconds": seconds}


def produce_frames(job: Job) -> Result:
    now = int(time.time() * 1000)
    records = encode_batch([(None, b"x" * job["size"], (), now)] * job["batch"])
    part = ProduceRequestPartition(index=0, records=records)
    request = ProduceRequest(
        acks=1,
        timeout_ms=30_000,
        topic_data=[ProduceRequestTopic(name=job["topic"], partition_data=[part])],
    )
    frame = encode_request(request, 9, 7, "bench")
    count, flying, done = job["count"] // job["batch"], 0, 0
    depth = job.get("depth", 5)
    with _connected(job["servers"]) as sock, sock.makefile("rb", 65536) as answers:
        began = time.perf_counter()
        while done < count:
            more = min(depth - flying, count - done - flying)
            if more > 0:
                sock.sendall(frame * more)
                flying += more
            answer = answers.read(struct.unpack(">i", answers.read(4))[0])
            if not done:
                code = decode_response(answer, ProduceRequest, 9)[1].responses[0]
                assert code.partition_responses[0].error_code == 0, code
            flying -= 1
            done += 1
        seconds = time.perf_counter() - began
    return {"messages": count * job["batch"], "seconds": seconds}


# --- consume


def consume_librdkafka(job: Job) -> Result:
    consumer = Consumer(
        {
            "bootstrap.servers": job["servers"],
            "group.id": "bench",
            "enable.auto.commit": False,
            "fetch.message.max.bytes": job["fetch_bytes"],
            "message.max.bytes": job["fetch_bytes"],
            "fetch.max.bytes": job["fetch_bytes"],
            "fetch.wait.max.ms": 100,
            "queued.min.messages": 100_000,
            "queued.max.messages.kbytes": 65_536,
            "check.crcs": False,
        }
    )
    consumer.assign([TopicPartition(job["topic"], 0, OFFSET_BEGINNING)])
    count, got = job["count"], 0
    first = consumer.consume(1, 30)
    began = time.perf_counter()
    got = len(first)
    while got < count:
        messages = consumer.consume(min(10_000, count - got), 30)
        if not messages:
            raise RuntimeError(f"{got} of {count} messages came")
        got += len(messages)
    seconds = time.perf_counter() - began
    consumer.close()
    return {"messages": got, "seconds": seconds}


def consume_tallymark(job: Job) -> Result:
    from tallymark.client import SimpleConsumer

    count, got, offset = job["count"], 0, 0
    with SimpleConsumer(bootstrap_servers=job["servers"]) as consumer:
        began = time.perf_counter()
        while got < count:
            found = consumer.fetch(job["topic"], 0, offset, max_bytes=job["fetch_bytes"])
            got += len(found.records())
            offset = found.next_offset
        seconds = time.perf_counter() - began
    return {"messages": got, "seconds": seconds}


def consume_frames(job: Job) -> Result:
    """Read ``count`` messages one after the other: the first of the log, or with ``tail`` the
    last."""
    answered = bytearray(job["fetch_bytes"] + 1_100_000)
    with _connected(job["servers"]) as sock:
        first = _end_offset(sock, job["topic"]) - job["count"] if job.get("tail") else 0
        offset, began = first, time.perf_counter()
        while offset < first + job["count"]:
            offset = _fetch(sock, job, offset, answered)
        seconds = time.perf_counter() - began
    return {"messages": offset - first, "seconds": seconds}


def _fetch(sock: socket.socket, job: Job, offset: int, answered: bytearray) -> int:
    """Fetch from an offset; returns the offset after the last record received."""
    part = FetchRequestPartition(
        partition=0, fetch_offset=offset, partition_max_bytes=job["fetch_bytes"]
    )
    request = FetchRequest(
        max_wait_ms=1000,
        min_bytes=1,
        max_bytes=job["fetch_bytes"],
        topics=[FetchRequestTopic(topic=job["topic"], partitions=[part])],
    )
    sock.sendall(encode_request(request, 11, 7, "bench"))
    frame = _receive(sock, answered)
    found = decode_response(frame, FetchRequest, 11)[1].responses[0].partitions[0]
    if found.error_code or not found.records:
        raise RuntimeError(f"error {found.error_code} at offset {offset} of {job['topic']}")
    pos = 0
    while len(found.records) - pos >= HEADER_SIZE:
        header = read_header(found.records, pos)
        pos += header.size
        if pos > len(found.records):
            break  # the last batch may be cut
        offset = header.next_offset
    return offset


def _end_offset(sock: socket.socket, topic: str) -> int:
    ask = ListOffsetsRequestPartition(partition_index=0, timestamp=-1)
    request = ListOffsetsRequest(topics=[ListOffsetsRequestTopic(name=topic, partitions=[ask])])
    sock.sendall(encode_request(request, 1, 7, "bench"))
    frame = _receive(sock, bytearray(1000))
    return decode_response(frame, ListOffsetsRequest, 1)[1].topics[0].partitions[0].offset


def scatter(job: Job) -> Result:
    """Read ``count`` messages in pieces, from offsets spread over the whole log."""
    random = Random(1)
    with _connected(job["servers"]) as sock:
        end = _end_offset(sock, job["topic"])
        answered = bytearray(job["fetch_bytes"] + 1_100_000)
        got, began = 0, time.perf_counter()
        while got < job["count"]:
            offset = random.randrange(end)
            after = _fetch(sock, job, offset, answered)
            got += after - offset
        seconds = time.perf_counter() - began
    return {"messages": got, "seconds": seconds}


# --- latency


def latency(job: Job) -> Result:
    """From the call of produce() to the delivery report, at a steady rate: milliseconds."""
    producer = Producer(
        {
            "bootstrap.servers": job["servers"],
            "acks": job.get("acks", "1"),
            "linger.ms": job["linger_ms"],
            "queue.buffering.max.messages": 500_000,
        }
    )
    producer.list_topics(job["topic"], 30)
    value, rate, topic = b"x" * job["size"], job["rate"], job["topic"]
    taken: list[float] = []
    clock = time.perf_counter
    step = rate // 1000  # messages of one millisecond

    def done(error: Any, message: Any) -> None:
        if error is None:
            taken.append(message.latency())

    began = clock()
    for tick in range(int(job["seconds"] * 1000)):
        for _ in range(step):
            producer.produce(topic, value, partition=0, on_delivery=done)
        producer.poll(0)
        due = began + (tick + 1) / 1000
        while (left := due - clock()) > 0:
            producer.poll(left)
    seconds = clock() - began
    producer.flush(60)
    taken = sorted(taken[len(taken) // 10 :])  # the start is not the steady state
    return {
        "messages": step * int(job["seconds"] * 1000),
        "seconds": seconds,
        "p50_ms": 1000 * taken[len(taken) // 2],
        "p99_ms": 1000 * taken[int(len(taken) * 0.99)],
        "p999_ms": 1000 * taken[int(len(taken) * 0.999)],
    }


def _connected(servers: str) -> socket.socket:
    host, port = servers.rsplit(":", 1)
    sock = socket.create_connection((host, int(port)), 30)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return sock


def _receive(sock: socket.socket, into: bytearray) -> memoryview:
    """One frame without its size, in ``into`` (larger when need be)."""
    size = int.from_bytes(sock.recv(4, socket.MSG_WAITALL), "big")
    view = memoryview(into if size <= len(into) else bytearray(size))[:size]
    got = 0
    while got < size:
        read = sock.recv_into(view[got:])
        if not read:
            raise ConnectionError("closed")
        got += read
    return view


if __name__ == "__main__":
    main()
