"""The two ends of the pipeline, each as a process of its own: ``python pipeline_ends.py '{"job":
"publish", ...}'``. A message's first eight bytes are the time when it was due to be sent, in ns of
the machine's monotonic clock, which both ends share. So the latency includes the time that a
message waits because the publisher is late.
"""

from __future__ import annotations

import json
import struct
import sys
import time
from typing import Any, Final

Job = dict[str, Any]

_TIME: Final = struct.Struct(">q")
_TICK_NS: Final = 1_000_000
_PATIENCE: Final = 60.0


def publish(job: Job) -> dict[str, float]:
    """``rate`` messages a second for ``seconds``, a thousandth of them each millisecond."""
    from tallymark import Producer

    each, rest = job["rate"] // 1000, bytes(job["size"] - _TIME.size)
    topic, partitions = job["topic"], job["partitions"]
    late = number = 0
    with Producer(
        bootstrap_servers=job["servers"],
        audit=False,
        stamp=True,
        linger_ms=job["linger_ms"],
        server="bench",
    ) as producer:
        producer.send(topic, _TIME.pack(0) + rest, partition=0).result(30)
        began, cpu = time.monotonic_ns(), time.process_time()
        for tick in range(job["seconds"] * 1000):
            due = began + tick * _TICK_NS
            value = _TIME.pack(due) + rest
            for _ in range(each):
                producer.send(topic, value, partition=number % partitions)
                number += 1
            left = due + _TICK_NS - time.monotonic_ns()
            if left > 0:
                time.sleep(left / 1e9)
            elif left < -100 * _TICK_NS:
                late += 1
        took, used = (time.monotonic_ns() - began) / 1e9, time.process_time() - cpu
        producer.flush(60)
    return {"messages": number, "seconds": took, "cpu_seconds": used, "late_ticks": late}


def follow(job: Job) -> dict[str, float]:
    """Read ``count`` messages as they arrive, and one more that only shows that the topic
    exists."""
    from tallymark.client import ConsumerConnector

    taken: list[float] = []
    with ConsumerConnector(
        bootstrap_servers=job["servers"],
        group="pipeline",
        coordinator="brokers",
        fetch_max_wait_ms=100,
    ) as connector:
        (stream,) = connector.create_message_streams({job["topic"]: 1})[job["topic"]]
        print("reading", flush=True)
        used = time.process_time()
        clock, unpack = time.monotonic_ns, _TIME.unpack_from
        while len(taken) < job["count"]:
            messages = stream.poll(_PATIENCE, 10_000)
            if not messages:
                raise RuntimeError(f"{len(taken)} of {job['count']} messages came")
            now = clock()
            for message in messages:
                (sent,) = unpack(message.value or b"")
                if sent:
                    taken.append((now - sent) / 1e6)
    used = time.process_time() - used
    whole = len(taken)
    taken = sorted(taken[whole // 3 :])  # connecting and compiling are not the steady state
    return {
        "messages": whole,
        "cpu_seconds": used,
        "p50_ms": taken[len(taken) // 2],
        "p99_ms": taken[int(len(taken) * 0.99)],
        "p999_ms": taken[int(len(taken) * 0.999)],
        "max_ms": taken[-1],
    }


if __name__ == "__main__":
    given: Job = json.loads(sys.argv[1])
    print(json.dumps({"publish": publish, "follow": follow}[given["job"]](given)))
