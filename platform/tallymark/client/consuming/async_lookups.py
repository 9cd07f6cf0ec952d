"""Lookups at the brokers that the fetcher does not wait for.

Where to begin, or to go on after a reset, must be asked of the partition's leader, which may be
slow or gone: a few threads wait for that, so that the other partitions are fetched meanwhile.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Final

from tallymark.client.consuming.reset import Answered, Reset
from tallymark.client.consuming.subscription_state import PartitionProgress

_THREADS: Final = 4


class AsyncLookups:
    """One lookup at most for each partition. For one thread, the fetcher's; ``answered`` is set
    with each answer."""

    def __init__(self, answered: threading.Event) -> None:
        self._answered = answered
        self._pool: ThreadPoolExecutor | None = None
        self._due: dict[PartitionProgress, Future[Reset | None]] = {}

    def __bool__(self) -> bool:
        return bool(self._due)

    def __contains__(self, item: PartitionProgress) -> bool:
        return item in self._due

    def ask(self, item: PartitionProgress, question: Callable[[], Reset]) -> None:
        """Have ``question`` answered in another thread, if the partition is not given up before a
        thread comes to it: a group that rebalances again and again would ask about all partitions
        of all its assignments, one after the other."""
        future = self._due[item] = self._threads().submit(_answer, item, question)
        future.add_done_callback(lambda _: self._answered.set())

    def ask_together(
        self,
        items: Iterable[PartitionProgress],
        question: Callable[[Sequence[PartitionProgress], Answered], None],
    ) -> None:
        """As :meth:`ask`, one question about many partitions, each of which is answered as soon as
        that is known: one after the other, 1,000 partitions took a minute."""
        due: dict[PartitionProgress, Future[Reset | None]] = {item: Future() for item in items}
        for future in due.values():
            future.add_done_callback(lambda _: self._answered.set())
        self._due.update(due)
        self._threads().submit(_answer_each, due, question)

    def _threads(self) -> ThreadPoolExecutor:
        if self._pool is None:
            self._pool = ThreadPoolExecutor(_THREADS, "tallymark-positions")
        return self._pool

    def answers(self) -> list[tuple[PartitionProgress, Future[Reset | None]]]:
        """What has been answered since, or has failed. None: the partition was given up."""
        done = [(item, future) for item, future in self._due.items() if future.done()]
        for item, _ in done:
            del self._due[item]
        return done

    def close(self) -> None:
        """Wait for the questions under way; they end when the client is closed."""
        if self._pool is not None:
            self._pool.shutdown(wait=True, cancel_futures=True)


def _answer_each(
    due: Mapping[PartitionProgress, Future[Reset | None]],
    question: Callable[[Sequence[PartitionProgress], Answered], None],
) -> None:
    def answered(item: PartitionProgress, found: Reset | Exception | None) -> None:
        if isinstance(found, Exception):
            due[item].set_exception(found)
        else:
            due[item].set_result(found)

    wanted = [item for item in due if item.active]
    for item in due.keys() - set(wanted):
        answered(item, None)
    try:
        if wanted:
            question(wanted, answered)
    except Exception as error:
        for item in wanted:
            if not due[item].done():
                answered(item, error)


def _answer(item: PartitionProgress, question: Callable[[], Reset]) -> Reset | None:
    return question() if item.active else None
