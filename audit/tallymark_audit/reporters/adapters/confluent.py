"""``audited()`` for confluent-kafka: chooses the partition, stamps, tallies, and hands on.

What librdkafka would do is done as it would: the partitioner of the configuration, the error of a
full queue (the record then has no number), the application's own delivery callbacks. These are
called by ``poll()`` and ``flush()`` as ever, but after the books hold what they are told: a process
that is killed has then claimed all that the application was told is safe.
"""

from __future__ import annotations

import os
import weakref
from collections import deque
from time import monotonic
from typing import Any, Final

from tallymark.client.core.closing import ClosedByWith
from tallymark_audit.reporters.adapters.confluent_produce import DeliveryCallback, producing
from tallymark_audit.reporters.adapters.confluent_reports import PollWatch
from tallymark_audit.reporters.adapters.confluent_topics import AuditedTopics
from tallymark_audit.reporters.adapters.run import AdapterRun

LAST_SECONDS: Final = 5.0
"""How long the end of a producer that nobody closed waits for what it still has."""


class AuditedProducer(ClosedByWith):
    """A ``confluent_kafka.Producer`` whose records are accounted for; see
    :func:`tallymark_audit.reporters.adapters.audited`.

    Every method and attribute of the producer is there and does what it did, from as many threads.
    ``close()`` sends the last report, so does the end of the process or of this object."""

    def __init__(
        self,
        inner: Any,
        run: AdapterRun,
        topics: AuditedTopics,
        poll_watch: PollWatch,
        tell: DeliveryCallback | None,
    ) -> None:
        """``tell``: the delivery callback of the configuration."""
        self._inner = inner
        self._run = run
        self._topics = topics
        self._poll = inner.poll
        self._poll_watch = poll_watch
        self._pending: deque[tuple[DeliveryCallback, Any, Any]] = deque()
        self.produce = producing(inner, run, topics, self._pending, tell)
        """As ``confluent_kafka.Producer.produce``. The first record of a topic waits until its
        partitions are known (five seconds at most; then it goes without a stamp)."""
        self._finalizer = weakref.finalize(self, _finish, inner, run, os.getpid())

    def poll(self, timeout: float = -1) -> int:
        """As ``confluent_kafka.Producer.poll``: calls the delivery callbacks."""
        if not timeout or self._pending:
            self._poll_watch.polled = True
            served: int = self._poll(0)
        else:
            with self._poll_watch.polling():
                served = self._poll(timeout)
        if self._pending:
            self._call_back()
        return served

    def flush(self, timeout: float = -1) -> int:
        """As ``confluent_kafka.Producer.flush``. The books hold what was delivered when it
        returns, and the callbacks were called."""
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
        """As the producer's; so with the following. What is acknowledged in a transaction is
        claimed when that is committed, and known to be aborted when it is aborted."""
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
        """Deliver what is under way, send the last report, and close the producer where it has
        something to close."""
        self.flush(named.get("timeout", 30.0))
        self._topics.forget()
        self._finalizer()
        close = getattr(self._inner, "close", None)
        return close(*arguments, **named) if close is not None else True

    def forked(self) -> None:
        """In a child its threads are not there: what is produced goes nowhere, and uncounted."""
        self._run.forked()
        self._topics.forget()

    def __len__(self) -> int:
        return len(self._inner) + len(self._pending)

    def __bool__(self) -> bool:
        return True

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def _call_back(self) -> None:
        """Call the application's callbacks. One that raises leaves the rest to the next time."""
        self._run.settle()
        while self._pending:
            try:
                tell, error, message = self._pending.popleft()
            except IndexError:  # another thread took it
                return
            tell(error, message)


def _finish(inner: Any, run: AdapterRun, process: int) -> None:
    """The end of a producer that nobody closed: what librdkafka still has would be lost with it."""
    if not run.over and os.getpid() == process:
        inner.flush(LAST_SECONDS)
        run.close()
