"""Several mirrors in one process, each in a thread of its own."""

from __future__ import annotations

import logging
import threading
from collections.abc import Sequence
from contextlib import ExitStack, closing

from tallymark.closing import ClosedByWith
from tallymark.deployment import Deployment
from tallymark.deployment import Mirror as MirrorSettings
from tallymark.mirror.mirror import Mirror
from tallymark.mirror.monitoring.lag import MirrorState

_log = logging.getLogger("mirror")


class Mirrors(ClosedByWith):
    """Runs the mirrors of ``settings`` until it is stopped or one of them fails. Then all of them
    stop, in order, and the error is raised. Errors of the start as for :class:`Mirror`."""

    def __init__(self, deployment: Deployment, settings: Sequence[MirrorSettings]) -> None:
        self._errors: list[Exception] = []
        self._ended = threading.Event()
        with ExitStack() as opened:
            self._mirrors = [
                opened.enter_context(closing(Mirror(deployment, one.source, one.target)))
                for one in settings
            ]
            self._opened = opened.pop_all()

    def states(self) -> list[MirrorState]:
        """Counts and lag of each; from any thread."""
        return [mirror.state for mirror in self._mirrors]

    def run(self, stopped: threading.Event) -> None:
        """Copy until ``stopped`` is set."""
        threads = [
            threading.Thread(target=self._run, args=(mirror, stopped), name=mirror.state.name)
            for mirror in self._mirrors[1:]
        ]
        for thread in threads:
            thread.start()
        self._run(self._mirrors[0], stopped)
        for thread in threads:
            thread.join()
        for error in self._errors[1:]:
            _log.error("and: %s", error)
        if self._errors:
            raise self._errors[0]

    def close(self) -> None:
        """Wait for what is in flight and store its offsets. Idempotent."""
        self._opened.close()

    def _run(self, mirror: Mirror, stopped: threading.Event) -> None:
        try:
            while not (stopped.is_set() or self._ended.is_set()):
                mirror.step()
        except Exception as error:
            self._errors.append(error)
            self._ended.set()
