"""Find the journals of runs that died, so that their claims can be published after all.

A journal whose lock is free belongs to no living process of this host. The process that replays it
holds the lock, and removes the file when every event of it is acknowledged. If that fails the file
stays, and the next try publishes the same events again, under the same numbers.
"""

from __future__ import annotations

import contextlib
import fcntl
import logging
import os
from collections.abc import Callable, Iterator
from concurrent.futures import CancelledError, Future
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from tallymark.private_files import open_private
from tallymark_audit.events.audit_topic import is_too_large
from tallymark_audit.events.event_codec import encode_event
from tallymark_audit.events.events import AuditEvent
from tallymark_audit.model.edges import AUDIT_TOPIC
from tallymark_audit.reporters.books.transaction import outcome_of_pending
from tallymark_audit.reporters.journal import layout, reading, replay
from tallymark_audit.reporters.journal.marks_file import MARKS_SUFFIX, read_marks

log: Final = logging.getLogger(__name__)
Publish = Callable[[str, bytes | None, bytes | None, int | None], Future[Any]]


@dataclass(slots=True)
class Orphan:
    """The journal of a dead run, locked by us."""

    path: Path
    file: int
    journaled: replay.Journaled

    def events(self, now_ms: int) -> list[AuditEvent]:
        """The run's last report, and no other follows: what was pending is in doubt, or ended as
        its transaction has or must."""
        processing, slots = self.journaled.processing, self.journaled.slots
        if processing is not None:
            marks = read_marks(self.path.with_suffix(MARKS_SUFFIX))
            holds = {place: marks[slot] for place, slot in slots.items() if slot in marks}
            return processing.last_report(holds, now_ms)
        tally = self.journaled.tally
        tally.settle_pending(now_ms, outcome_of_pending(tally.transaction))
        return tally.report(now_ms, 0, closed=True)

    def release(self, remove: bool) -> None:
        """Release the lock; with ``remove`` delete the file too."""
        if self.file >= 0:
            if remove:
                for path in (self.path, self.path.with_suffix(MARKS_SUFFIX)):
                    with contextlib.suppress(OSError):
                        path.unlink()
            os.close(self.file)
            self.file = -1


def find_orphans(
    directory: Path, cluster: str, set_aside: list[Path] | None = None
) -> Iterator[Orphan]:
    """The orphaned journals of a cluster (its id) in a folder, each locked until it is released.
    Damaged ones are set aside as ``*.bad`` with a line of log, and listed in ``set_aside``."""
    try:
        paths = sorted(directory.glob(f"*{layout.SUFFIX}"))
        drafts = sorted(directory.glob(f"*{layout.DRAFT}"))
        marks = sorted(directory.glob(f"*{MARKS_SUFFIX}"))
    except OSError as error:
        log.warning("cannot look for journals in %s: %s", directory, error)
        return
    for path in drafts:
        _remove_dead(path)
    for path in marks:
        if not path.with_suffix(layout.SUFFIX).exists():
            _remove_dead(path)
    for path in paths:
        file = _lock(path)
        if file is None:
            continue
        journaled = _read(path, file, set_aside)
        if journaled and journaled.cluster == cluster:
            yield Orphan(path, file, journaled)
        else:
            os.close(file)


def _lock(path: Path) -> int | None:
    """Open and lock the file; None: its run lives, or the file was removed or replaced."""
    try:
        file = open_private(path, os.O_RDWR)
    except OSError:
        return None
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        # A living run may just have put a new file in this one's place: its lock is on that.
        if os.fstat(file).st_ino == os.stat(path).st_ino:
            return file
    except OSError:
        pass
    os.close(file)
    return None


def _remove_dead(path: Path) -> None:
    """Remove a file whose run died while it rewrote its journal (the old journal is still there),
    or before it had one."""
    file = _lock(path)
    if file is not None:
        with contextlib.suppress(OSError):
            path.unlink()
        os.close(file)


def _read(path: Path, file: int, set_aside: list[Path] | None) -> replay.Journaled | None:
    try:
        size = os.fstat(file).st_size
        if size > layout.MAX_ENTRY * 2:
            raise replay.BadJournalError(f"{size} bytes are more than any journal has")
        return reading.read(os.pread(file, size, 0))
    except OSError as error:
        log.warning("cannot read the journal %s: %s", path, error)
    except replay.BadJournalError as error:
        aside = path.with_suffix(".bad")
        log.warning("the journal %s is set aside as %s: %s", path, aside.name, error)
        with contextlib.suppress(OSError):
            os.rename(path, aside)
        if set_aside is not None:
            set_aside.append(aside)
    return None


@dataclass(slots=True)
class Replay:
    """Publish the claims of every orphan. Call :meth:`start` as often as you want; it does not
    wait, and does not find an orphan again that is being published, since its lock is held.

    ``replayed`` counts the runs whose claims were all published. Events that are too large for the
    cluster are made smaller for the next try."""

    directory: Path
    cluster: str
    publish: Publish
    replayed: int = 0
    under_way: list[Future[Any]] = field(default_factory=list[Future[Any]])
    halvings: int = 0
    set_aside: list[Path] = field(default_factory=list[Path])
    """Journals that were damaged."""

    def start(self, now_ms: int) -> int:
        """Begin to publish what is found; returns for how many runs."""
        self.under_way = [future for future in self.under_way if not future.done()]
        started = 0
        for orphan in find_orphans(self.directory, self.cluster, self.set_aside):
            started += 1
            self._publish(orphan, now_ms)
        return started

    def _publish(self, orphan: Orphan, now_ms: int) -> None:
        for _ in range(self.halvings):
            orphan.journaled.tally.too_large()
        events = orphan.events(now_ms)
        left = len(events)
        errors: list[BaseException] = []

        def settled(future: Future[Any]) -> None:
            nonlocal left
            left -= 1
            error = CancelledError() if future.cancelled() else future.exception()
            if error is not None:
                errors.append(error)
            if left == 0:
                self.halvings += any(map(is_too_large, errors))
                orphan.release(remove=not errors)
                self._finished(orphan, bool(errors))

        key = orphan.journaled.tally.identity.reporter.encode()
        for event in events:
            future = self.publish(AUDIT_TOPIC, key, encode_event(event), now_ms)
            self.under_way.append(future)
            future.add_done_callback(settled)

    def _finished(self, orphan: Orphan, failed: bool) -> None:
        who = orphan.journaled.tally.identity
        if failed:
            log.warning("the claims of %s on %s are not published yet", who.reporter, who.server)
        else:
            self.replayed += 1
            log.info("published the last claims of %s on %s", who.reporter, who.server)
