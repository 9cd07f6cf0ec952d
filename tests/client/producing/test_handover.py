from __future__ import annotations

from tallymark.client.producing.batches.batch import ProducerBatch
from tallymark.client.producing.batches.handover import Handover
from tallymark.client.producing.batches.partition_queue import PartitionQueue, TopicQueues
from tallymark.client.producing.batches.pipeline import Pipeline


class Bench:
    """A handover whose pump only counts its runs, and one partition."""

    def __init__(self) -> None:
        self.runs = 0
        self.handover = Handover(self._run_pump)
        self.topic = TopicQueues("t")
        self.topic.grow(
            1, lambda owner, p: PartitionQueue(owner, p, b"i" * 8, "s", Pipeline(True, 5))
        )
        self.queue = self.topic.queues[0]
        self.batch = ProducerBatch("t", 0, None, 0.0, 1.0)

    def _run_pump(self) -> None:
        self.runs += 1

    def pump(self, crowded: bool = False, scan_at: float = 0.0) -> None:
        self.handover.begin_pump([self.queue])
        self.handover.end_pump([self.queue] if crowded else (), 0)
        self.handover.plan_scan(scan_at)


def test_a_pump_that_is_due_is_not_woken_again() -> None:
    bench = Bench()
    bench.handover.wake()
    bench.handover.sealed(bench.queue, bench.batch)
    bench.handover.began(lingers_until=5.0)
    assert bench.runs == 1
    bench.pump()
    bench.handover.wake()
    assert bench.runs == 2


def test_a_batch_that_begins_wakes_the_pump_unless_it_looks_in_time() -> None:
    bench = Bench()
    bench.pump(scan_at=4.0)
    bench.handover.began(lingers_until=5.0)
    assert bench.runs == 0
    bench.handover.began(lingers_until=3.0)
    assert bench.runs == 1


def test_a_sealed_batch_of_a_crowded_partition_does_not_wake_the_pump() -> None:
    bench = Bench()
    bench.pump(crowded=True)
    bench.handover.sealed(bench.queue, bench.batch)
    assert bench.runs == 0
    assert list(bench.handover.full) == [bench.queue]
    bench.handover.begin_pump(
        [bench.queue]
    )  # from here on it looks: what is sealed now may be late
    bench.handover.sealed(bench.queue, bench.batch)
    assert bench.runs == 1


def test_a_partition_is_listed_once_and_stays_listed_while_it_has_batches() -> None:
    bench = Bench()
    bench.handover.list_queue(bench.queue)
    bench.handover.list_queue(bench.queue)
    assert list(bench.handover.begun) == [bench.queue]
    bench.queue.open = bench.batch
    assert not bench.handover.forget_queue(bench.queue)
    bench.queue.open = None
    assert bench.handover.forget_queue(bench.queue)
    bench.handover.list_queue(bench.queue)
    assert len(bench.handover.begun) == 2
