"""What every long-running command does alike: log lines, signals, dying with its parent.

A log line is ``2026-01-31T12:00:00.123Z INFO name: text``, or a JSON object where that is asked
for; the first one whose text begins with ``ready`` shows the supervisor (and a person) that the
process serves.
"""

from __future__ import annotations

import logging
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Literal, Protocol

from tallymark.processes.descriptors import raise_descriptor_limit
from tallymark.processes.die_with_parent import bind_to_parent
from tallymark.processes.json_log import JsonLines
from tallymark.processes.log_rates import PlaceRates, shortened
from tallymark.untrusted import escaped

PARENT = "TALLYMARK_PARENT_PID"
"""Set by the supervisor for its children: they must not outlive it, even if it is killed."""


class Closeable(Protocol):
    """Anything with a close()."""

    def close(self) -> None: ...


class _UtcFormatter(logging.Formatter):
    converter = staticmethod(time.gmtime)
    default_msec_format = "%s.%03dZ"
    default_time_format = "%Y-%m-%dT%H:%M:%S"

    def formatMessage(self, record: logging.LogRecord) -> str:
        """One line, even if a client's name in it has a newline: what follows it would look like a
        line of ours."""
        return escaped(super().formatMessage(record))

    def formatException(self, ei: Any) -> str:
        """Bounded: what a client sent may be in the error."""
        return shortened(super().formatException(ei))


def configure_logging(level: int = logging.INFO, form: Literal["text", "json"] = "text") -> None:
    """One line a record on standard error, as text or as JSON
    (:mod:`tallymark.processes.json_log`); chatty libraries only warn."""
    handler = logging.StreamHandler(sys.stderr)
    handler.addFilter(PlaceRates())
    text = _UtcFormatter("%(asctime)s %(levelname)s %(name)s: %(message)s")
    handler.setFormatter(JsonLines() if form == "json" else text)
    logging.basicConfig(level=level, handlers=[handler], force=True)
    for chatty in (
        "kazoo",
        "httpx",
        "httpcore",
        "asyncio",
        "uvicorn.access",
        "py4j",
    ):
        logging.getLogger(chatty).setLevel(logging.WARNING)


def die_with_parent() -> None:
    """Ask the kernel for SIGTERM when the supervisor dies (Linux; elsewhere nothing happens)."""
    parent = os.environ.get(PARENT)
    if parent is None or not sys.platform.startswith("linux"):
        return
    if not bind_to_parent(int(parent), signal.SIGTERM):
        os.kill(os.getpid(), signal.SIGTERM)


@contextmanager
def stop_signals() -> Iterator[threading.Event]:
    """An event that SIGTERM and SIGINT set; the old handlers come back afterwards."""
    stopped = threading.Event()

    def stop(signum: int, frame: object) -> None:
        stopped.set()

    old = {number: signal.signal(number, stop) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield stopped
    finally:
        for number, handler in old.items():
            signal.signal(number, handler)


def run_process(
    name: str,
    start: Callable[[], Closeable],
    check: Callable[[], None] | None = None,
    interval: float = 0.5,
) -> None:
    """Run a service until SIGTERM or SIGINT: configure, start, say ready, wait, close.

    ``check`` is called every ``interval`` seconds; what it raises ends the process (a background
    thread that died must not leave a process that looks alive).
    """
    configure_logging()
    die_with_parent()
    raise_descriptor_limit()
    log = logging.getLogger(name)
    with stop_signals() as stopped:
        service = start()
        try:
            log.info("ready")
            while not stopped.wait(interval):
                if check is not None:
                    check()
            log.info("stopping")
        finally:
            service.close()
    log.info("stopped")
