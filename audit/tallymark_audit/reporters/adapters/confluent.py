"""``audited()`` for confluent-kafka: chooses the partition, stamps, tallies, and sends the record.

The wrapper behaves as librdkafka does: it has the partitioner of the configuration, the error of a
full queue (the record then has no number), and the application's delivery callbacks. ``poll()`` and
``flush()`` call these as before, but only when the books hold what is reported to them: so a
process that is killed has claimed every record that was reported to its application as delivered.
"""

from __future__ import annotations

import os
import weakref
from collections import deque
from collections.abc import Mapping, Sequence
from time import monotonic, time_ns
from typing import Any, Final, TypeAlias

from confluent_kafka import KafkaError, KafkaException

from tallymark.closing import ClosedByWith
from tallymark_audit.reporters.adapters.confluent_delivery import (
    DeferredCallback,
    DeliveryCallback,
)
from tallymark_audit.reporters.adapters.confluent_reports import PollWatch
from tallymark_audit.reporters.adapters.confluent_topics import AuditedTopics
from tallymark_audit.reporters.adapters.record_path import Header, is_held, sequence_of
from tallymark_audit.reporters.adapters.run import AdapterRun

Headers: TypeAlias = Mapping[str, Any] | Sequence[tuple[str, Any]]

CALLBACK_SECONDS: Final = 0.005
LAST_SECONDS: Final = 5.0
"""How long the end of a producer that was not closed waits for what it still has."""
_REFUSALS: Final = (
    *(BufferError, KafkaException, TypeError, ValueError, OverflowError, NotImplementedError),
    *(RuntimeError, MemoryError),
)
"""What ``produce`` raises: the record was not taken. Anything else comes from a signal handler, and
the record may have been taken."""


class AuditedProducer(ClosedByWith):
    """A ``confluent_kafka.Producer`` whose records are audited; see
    :func:`tallymark_audit.reporters.adapters.audited`.

    Every method and attribute of the producer is there and does what it did, from as many threads.
    ``close()`` sends the last report, so does the end of the process or of this object."""

    def __init__(
        self,
        inner: Any,
        run: AdapterRun,
        topics: AuditedTopics,
        poll_watch: PollWatch,
        default_callback: DeliveryCallback | None,
        pending: deque[DeferredCallback],
    ) -> None:
        """``default_callback``: the delivery callback of the configuration. ``pending``: where
        delivery reports put the application's callbacks."""
        self._inner = inner
        self._run = run
        self._taken, self._release = run.taken(), run.lock.release
        self._topics = topics
        self._known = topics.known
        self._produce = inner.produce
        self._poll = inner.poll
        self._poll_watch = poll_watch
        self._pending = pending
        self._settled = -CALLBACK_SECONDS
        self._default_callback = default_callback
        self._finalizer = weakref.finalize(self, _finish, inner, run, os.getpid())

    def produce(
        self,
        topic: str,
        value: str | bytes | None = None,
        key: str | bytes | None = None,
        partition: int = -1,
        callback: DeliveryCallback | None = None,
        on_delivery: DeliveryCallback | None = None,
        timestamp: int = 0,
        headers: Headers | None = None,
    ) -> None:
        """As ``confluent_kafka.Producer.produce``. The first record of a topic waits until its
        partitions are known (five seconds at most; then it goes without a stamp)."""
        # Each record passes here: what can wait is left to drain().
        chooser = self._known.get(topic) or self._topics.learn(topic)
        own = callback or on_delivery or self._default_callback
        if chooser is None or partition >= len(chooser.partitions):
            self._produce(topic, value, key, partition, own, None, timestamp, headers or [])
            return
        for _ in self._taken:  # with self._run.lock, see AdapterRun.taken()
            try:
                now = time_ns() // 1_000_000
                if partition >= 0:
                    tracker = chooser.partitions[partition]
                elif key is None and now < chooser.until:  # a record without a key, mostly
                    tracker = chooser.sticky
                else:
                    tracker = chooser.choose(key, now)
                when, report, asked, stamp = timestamp or now, None, {}, ("", b"")
                try:
                    report, stamp = next(tracker.reports), next(tracker.headers)
                    tracker.times.append(when)
                    asked = tracker.asked
                    if own is not None:
                        asked[report.__self__] = own
                    stamped = [stamp] if headers is None else _joined(headers, stamp)
                    self._produce(topic, value, key, tracker.partition, report, None, when, stamped)
                except BaseException as error:
                    if report is None:
                        tracker.begin()
                    elif isinstance(error, _REFUSALS) or not is_held(report):
                        asked.pop(report.__self__, None)
                        self._run.refuse(tracker, sequence_of(stamp))
                    report = None  # else the error's traceback holds it, and its page
                    raise
                if value:
                    tracker.size += len(value)
                if key:
                    tracker.size += len(key)
                return
            finally:
                self._release()

    def produce_batch(
        self,
        topic: str,
        messages: list[dict[str, Any]],
        partition: int = -1,
        callback: DeliveryCallback | None = None,
        on_delivery: DeliveryCallback | None = None,
    ) -> int:
        """As ``confluent_kafka.Producer.produce_batch``, with a stamp on each record: librdkafka
        takes no headers for a list of records, so they are handed over one by one."""
        if not isinstance(messages, list):
            raise TypeError("messages must be a list")
        queued = 0
        for number, message in enumerate(messages):
            if not isinstance(message, dict):
                raise TypeError(f"Message at index {number} must be a dict")
            try:
                self.produce(
                    topic,
                    message.get("value"),
                    message.get("key"),
                    _either(message.get("partition"), partition),
                    message.get("callback") or callback or on_delivery,
                    timestamp=message.get("timestamp") or 0,
                    headers=message.get("headers"),
                )
                queued += 1
            except BufferError as error:
                message["_error"] = KafkaError(KafkaError._QUEUE_FULL, str(error))
            except KafkaException as error:
                message["_error"] = error.args[0]
        return queued

    def poll(self, timeout: float = -1) -> int:
        """As ``confluent_kafka.Producer.poll``: calls the delivery callbacks; without a timeout it
        calls them every CALLBACK_SECONDS, for the books are written before."""
        if not timeout or self._pending:
            self._poll_watch.polled = True
            served: int = self._poll(0)
        else:
            with self._poll_watch.polling():
                served = self._poll(timeout)
        if self._pending and (timeout or monotonic() - self._settled > CALLBACK_SECONDS):
            self._call_back()
        return served

    def flush(self, timeout: float = -1) -> int:
        """As ``confluent_kafka.Producer.flush``. When it returns, the books hold what was
        delivered, and the callbacks were called."""
        deadline = None if timeout < 0 else monotonic() + timeout
        while True:
            left = -1.0 if deadline is None else max(0.0, deadline - monotonic())
            with self._poll_watch.polling():
                waiting: int = self._inner.flush(left)
            self._run.flushed()
            if not self._pending:
                return waiting
            self._call_back()

    def begin_transaction(self, *arguments: Any, **named: Any) -> None:
        """As the producer's method, and so are the next two. What is acknowledged in a transaction
        is claimed when the transaction is committed, and reported as aborted when it is aborted."""
        self._inner.begin_transaction(*arguments, **named)
        self._run.begin()

    def commit_transaction(self, *arguments: Any, **named: Any) -> None:
        self._inner.commit_transaction(*arguments, **named)
        self._run.commit()
        self._call_back()

    def abort_transaction(self, *arguments: Any, **named: Any) -> None:
        self._inner.abort_transaction(*arguments, **named)
        self._run.abort()
        self._call_back()

    def close(self, *arguments: Any, **named: Any) -> Any:
        """Deliver what is pending, send the last report, and close the producer, if its version has
        a ``close()``."""
        self.flush(named.get("timeout", 30.0))
        self._topics.forget()
        self._finalizer()
        close = getattr(self._inner, "close", None)
        return close(*arguments, **named) if close is not None else True

    def forked(self) -> None:
        """In a forked child the producer's threads do not run: nothing is sent or counted."""
        self._run.forked()
        self._taken, self._release = self._run.taken(), self._run.lock.release
        self._topics.forget()

    def __len__(self) -> int:
        return len(self._inner) + len(self._pending)

    def __bool__(self) -> bool:
        return True

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def _call_back(self) -> None:
        """Call the application's callbacks. If one raises, the rest are called the next time."""
        self._run.settle()
        self._settled = monotonic()
        while self._pending:
            try:
                callback, error, message = self._pending.popleft()
            except IndexError:  # another thread took it
                return
            callback(error, message)


def _finish(inner: Any, run: AdapterRun, process: int) -> None:
    """The end of a producer that was not closed: without it, what librdkafka still has is lost."""
    if not run.over and os.getpid() == process:
        inner.flush(LAST_SECONDS)
        run.close()


def _either(given: int | None, default: int) -> int:
    return default if given is None else given


def _joined(headers: Headers, stamp: Header) -> list[tuple[str, Any]]:
    """The stamp last, since the last header of its name counts: a header of that name that the
    application gave does not hide the record from the audit."""
    pairs = headers.items() if isinstance(headers, Mapping) else headers
    return [*pairs, stamp]
