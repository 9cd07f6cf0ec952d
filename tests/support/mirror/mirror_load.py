"""Messages that are published while mirrors come and go, and what has to be true of the copies."""

from __future__ import annotations

import random
import threading
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import pairwise

from mirror_rig import Rig

from tallymark.client.producing.producer import Producer
from tallymark.protocol.records.batch import Record

PER_SECOND = 600


class Load:
    """Numbers 0, 1, 2 ... into each of some partitions, in batches of all sizes, from a thread."""

    def __init__(self, producer: Producer, topic: str, partitions: int, seed: int) -> None:
        self._producer = producer
        self._topic = topic
        self._chance = random.Random(seed)
        self.sent = dict.fromkeys(range(partitions), 0)
        """How many numbers each partition has got."""
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> Load:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def stop(self) -> None:
        """Publish no more; all of it is acknowledged when this returns."""
        self._stopped.set()
        self._thread.join(60)
        self._producer.flush(60)

    def _run(self) -> None:
        while not self._stopped.is_set():
            burst = self._chance.choice([1, 2, 5, 40, 120])
            partition = self._chance.choice(list(self.sent))
            for _ in range(burst):
                number = self.sent[partition]
                self._producer.send(self._topic, b"%d" % number, partition=partition)
                self.sent[partition] = number + 1
            time.sleep(burst / PER_SECOND)


def all_there(rig: Rig, topic: str, sent: Mapping[int, int]) -> bool:
    """Whether every message of the source has arrived."""
    if rig.count(topic) < sum(sent.values()):
        return False
    found = rig.read("target", topic)
    return all(
        len({record.value for record in found.get(partition, ())}) >= count
        for partition, count in sent.items()
    )


def steps_back(found: Mapping[int, Sequence[Record]]) -> list[int]:
    """How many messages come again at each place where a partition begins anew further back."""
    steps: list[int] = []
    for records in found.values():
        numbers = [int(record.value or b"") for record in records]
        steps += [before + 1 - after for before, after in pairwise(numbers) if after <= before]
    return steps


def repeated(found: Mapping[int, Sequence[Record]], sent: Mapping[int, int]) -> Counter[int]:
    """Checks that the copies are the messages in their order, but for stretches that begin anew
    further back, as after a kill. Returns how many come again, by partition; identities (stamps)
    say the same as numbers do."""
    again: Counter[int] = Counter()
    for partition, count in sent.items():
        numbers = [int(record.value or b"") for record in found.get(partition, ())]
        assert set(numbers) == set(range(count)), f"partition {partition} lacks messages"
        for before, after in zip([-1, *numbers], numbers, strict=False):
            assert after <= before + 1, f"partition {partition} leaves out {before + 1}"
        again[partition] = len(numbers) - count
        stamps = [dict(record.headers)["tm"] for record in found.get(partition, ())]
        assert len(stamps) - len(set(stamps)) == again[partition]
    return again
