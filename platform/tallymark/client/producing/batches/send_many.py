"""send_many: a column of values to the batches of their partitions, a batch at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TypeAlias

from tallymark.client.producing.batches.accumulator import Accumulator
from tallymark.client.producing.batches.many_records import ManyRecords
from tallymark.client.producing.batches.partition_queue import PartitionQueue, TopicQueues
from tallymark.client.producing.delivery import ProduceResult
from tallymark.errors import BufferFullError, TimedOutError

Slice: TypeAlias = tuple[ProduceResult, int, int]
"""ProduceResult, place of the first record in it, number of records."""
Choice: TypeAlias = Callable[[bytes | None], PartitionQueue]


class Filler:
    """Puts the records of one send_many into batches. ``slices`` are those that were taken in."""

    def __init__(
        self, accumulator: Accumulator, topic: TopicQueues, block: float | None, drop: bool
    ) -> None:
        self.slices: list[Slice] = []
        self.dropped = 0
        """Records that were not taken for want of room, and only counted."""
        self._accumulator = accumulator
        self._topic = topic
        self._block = block
        self._drop = drop

    def fill(
        self, records: ManyRecords, queue: PartitionQueue | None, choose: Choice | None
    ) -> None:
        """Take ``records`` in: to ``queue``, where ``choose(key)`` says, or sticking to a partition
        batch by batch. Errors of :meth:`Accumulator.append`, saying how many were taken in."""
        if queue is not None:
            self._into(records, lambda: queue)
        elif choose is None:
            self._into(records, lambda: self._topic.sticky)
        else:
            for found, part in _by_queue(records, choose):
                self._into(part, lambda found=found: found)  # type: ignore[misc] # mypy: lambda's default

    def _into(self, records: ManyRecords, queue: Callable[[], PartitionQueue]) -> None:
        start = 0
        while start < len(records):
            try:
                taken = self._accumulator.append_some(
                    queue(), records, start, self._topic.stamped, self._block
                )
            except BufferFullError as error:
                if self._drop:
                    self._give_up(len(records) - start, error)
                    return
                raise BufferFullError(self._so_far(error)) from None
            except TimedOutError as error:
                raise TimedOutError(self._so_far(error)) from None
            self.slices.append(taken)
            start += taken[2]

    def _give_up(self, count: int, error: BufferFullError) -> None:
        result = ProduceResult(self._topic.name, -1)
        result.failed(error)
        self.slices.append((result, 0, count))
        self.dropped += count

    def _so_far(self, error: Exception) -> str:
        taken = sum(count for _, _, count in self.slices)
        return f"{error}; {taken} records of this call were taken in before"


def _by_queue(records: ManyRecords, choose: Choice) -> Iterator[tuple[PartitionQueue, ManyRecords]]:
    """The records of each partition, in order."""
    keys = records.keys
    assert keys is not None, "without keys partitions are not chosen one by one"
    indexes: dict[PartitionQueue, list[int]] = {}
    known: dict[bytes, list[int]] = {}
    for index, key in enumerate(keys):
        if key is None:
            indexes.setdefault(choose(None), []).append(index)
            continue
        key = bytes(key)
        mine = known.get(key)
        if mine is None:
            mine = known[key] = indexes.setdefault(choose(key), [])
        mine.append(index)
    for queue, chosen in indexes.items():
        yield queue, records.take(chosen)
