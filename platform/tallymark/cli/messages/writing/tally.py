"""What became of the messages that a command sent."""

from __future__ import annotations

import threading

from tallymark.client.producing.delivery import RecordMetadata
from tallymark.errors import UserError


class Tally:
    """Counts sent, acknowledged and failed messages; ``note`` is an ``on_delivery`` callback."""

    def __init__(self) -> None:
        self.sent = 0
        self.acknowledged = 0
        self.failed = 0
        self.error: Exception | None = None
        """The first one."""
        self._lock = threading.Lock()

    def note(self, error: Exception | None, metadata: RecordMetadata | None) -> None:
        """One message is settled. From the producer's thread."""
        with self._lock:
            if error is None:
                self.acknowledged += 1
            else:
                self.failed += 1
                self.error = self.error or error

    def text(self) -> str:
        """For the progress display."""
        failed = f", {self.failed:,} failed" if self.failed else ""
        return f"{self.sent:,} sent, {self.acknowledged:,} acknowledged{failed}"

    def check(self) -> None:
        """Raise UserError unless every message that was sent is acknowledged."""
        missing = self.sent - self.acknowledged
        if missing:
            raise UserError(
                f"{missing} of {self.sent} messages were not delivered: {self.error or 'given up'}"
            )
