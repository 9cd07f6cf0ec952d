"""A mirror whose target has other partitions writes new batches, after a while with the compiled
loops: everything arrives once, as it was, each key in its order."""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from typing import Any

import pytest
from eventually import eventually
from mirror_rig import Rig, rig, zookeeper

from tallymark.mirror.copying import gathered
from tallymark.protocol.records.compiled import repartition

__all__ = ["rig", "zookeeper"]
pytestmark = [pytest.mark.process, pytest.mark.timeout(600)]


@pytest.mark.soak
def test_the_loops_take_over_while_it_runs(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    """The loops are loaded after many records. In every other test of a running mirror there were
    fewer, so that a whole mirror with the loops was never seen to work."""
    pytest.importorskip("numba")
    monkeypatch.setattr(gathered, "_MANY_RECORDS", 500)
    rig.start("source", "target")
    rig.topic("source", "clicks", 4)
    rig.topic("target", "clicks", 3)
    running = rig.mirror()
    publish(rig, 0, 2000, "none")
    eventually(lambda: rig.count("clicks") == 2000)
    assert repartition.KERNEL.wait(250), "loaded, since 500 records were written anew"
    for step, codec in enumerate(("none", "gzip", "snappy", "lz4", "zstd"), 1):
        publish(rig, 2000 * step, 2000 * (step + 1), codec)
    eventually(lambda: rig.count("clicks") == 12_000)
    running.stop()
    sent = [row for rows in rig.read("source", "clicks").values() for row in rows]
    found = rig.read("target", "clicks")
    arrived = [row for rows in found.values() for row in rows]
    assert Counter(row[1:] for row in arrived) == Counter(row[1:] for row in sent)
    assert all(any(name == "tm" for name, _ in row.headers) for row in arrived)
    places: defaultdict[Any, list[tuple[int, int]]] = defaultdict(list)
    for partition, rows in found.items():
        for row in rows:
            if row.key is not None:
                number = int.from_bytes((row.value or b"")[:4], "big")
                places[row.key].append((partition, number))
    for key, of_key in places.items():
        assert len({partition for partition, _ in of_key}) == 1, key
        numbers = [number for _, number in of_key]
        assert numbers == sorted(numbers), key


def publish(rig: Rig, start: int, end: int, codec: str) -> None:
    """Messages of all sizes, keyed ones always to the same partition of the source."""
    chance = random.Random(start)
    producer = rig.producer("source", compression_type=codec, linger_ms=20)
    for number in range(start, end):
        key = chance.choice((None, b"", b"k%d" % (number % 50)))
        value = number.to_bytes(4, "big") + bytes(
            chance.choices(b"ab\xff", k=chance.randrange(300))
        )
        headers = (("a", b"1"), ("a", None), ("b", b"")) if number % 3 == 0 else ()
        partition = number % 4 if key is None else len(key) and int(key[1:]) % 4
        producer.send("clicks", value, key=key, partition=partition, headers=headers)
    producer.flush(60)
