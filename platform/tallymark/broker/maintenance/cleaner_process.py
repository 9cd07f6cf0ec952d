"""Does the work of a compaction, one step at a time: in a process on a real disk, so that the event
loop never waits for the interpreter; in the calling thread on any other disk."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Protocol, TypeAlias

from tallymark.errors import TallymarkError
from tallymark.log.compaction.task import Cleaned, CompactionTask, Paused, Summary
from tallymark.log.compaction.worker import Steps
from tallymark.log.disk.files import Files, OsFiles

Step: TypeAlias = Cleaned | Paused | Summary


class CompactionFailedError(TallymarkError):
    """The log stays as it is. ``damaged``: it has a corrupt batch, so a retry would fail, too."""

    def __init__(self, why: str, *, damaged: bool = False) -> None:
        super().__init__(why)
        self.damaged = damaged


class Worker(Protocol):
    """Compacts logs step by step. Each step blocks, in a thread of the caller; it may raise
    CompactionFailedError, which ends that compaction. Several compactions may run side by side,
    each identified by its log's directory."""

    def begin(self, task: CompactionTask) -> Step:
        """The first new segment of the task, or its summary if there is none; Paused if the turn
        ended before."""
        ...

    def next(self, directory: str) -> Step:
        """The next segment; the previous one has replaced its originals."""
        ...

    def drop(self, directory: str) -> None:
        """Abort that compaction."""
        ...

    def kill(self) -> None:
        """Stop for ever: a running step ends as soon as it can. Safe from any thread."""
        ...

    def close(self) -> None:
        """:meth:`kill` and clean up; no step may be under way."""
        ...


def worker_for(files: Files) -> Worker:
    """The worker for this kind of disk."""
    return ProcessWorker() if isinstance(files, OsFiles) else ThreadWorker(files)


class ThreadWorker:
    """Works in the calling thread; ``clock``: seconds, by which turns are measured."""

    def __init__(self, files: Files, clock: Callable[[], float] = time.monotonic) -> None:
        self._steps = Steps(files, clock=clock)

    def begin(self, task: CompactionTask) -> Step:
        return _step(self._steps.answer({"do": "begin", "task": task.to_json()}))

    def next(self, directory: str) -> Step:
        return _step(self._steps.answer({"do": "next", "directory": directory}))

    def drop(self, directory: str) -> None:
        self._steps.answer({"do": "drop", "directory": directory})

    def kill(self) -> None:
        """Does nothing: a step ends by itself."""

    def close(self) -> None:
        """Does nothing."""


class ProcessWorker:
    """:mod:`tallymark.log.compaction.worker` as a child process. The first task starts it. It ends
    with this process, however that ends, because its input ends then."""

    def __init__(self) -> None:
        self._child: subprocess.Popen[str] | None = None
        self._starting = threading.Lock()
        self._ended = False

    @property
    def pid(self) -> int | None:
        """The child's process id, None while there is none."""
        return self._child.pid if self._child is not None else None

    def begin(self, task: CompactionTask) -> Step:
        return self._ask({"do": "begin", "task": task.to_json()})

    def next(self, directory: str) -> Step:
        return self._ask({"do": "next", "directory": directory})

    def drop(self, directory: str) -> None:
        self._ask({"do": "drop", "directory": directory})

    def kill(self) -> None:
        with self._starting:
            self._ended = True
            if self._child is not None:
                self._child.kill()

    def close(self) -> None:
        self.kill()
        self._reap()

    def _ask(self, order: dict[str, Any]) -> Step:
        with self._starting:
            if self._ended:
                raise CompactionFailedError("the broker stops")
            child = self._child = self._child or _spawn()
        assert child.stdin is not None
        assert child.stdout is not None
        line = ""
        with suppress(OSError):
            child.stdin.write(json.dumps(order) + "\n")
            child.stdin.flush()
            line = child.stdout.readline()
        if not line.endswith("\n"):
            self._reap()
            raise CompactionFailedError("the compaction process was killed")
        return _step(json.loads(line))

    def _reap(self) -> None:
        child, self._child = self._child, None
        if child is None:
            return
        child.kill()
        with suppress(OSError):  # buffered bytes that the dead child will not read
            child.__exit__(None, None, None)


def _spawn() -> subprocess.Popen[str]:
    try:
        return subprocess.Popen(
            [sys.executable, "-m", "tallymark.log.compaction.worker"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
    except OSError as error:
        raise CompactionFailedError(f"the compaction process does not start: {error}") from error


def _step(answer: dict[str, Any]) -> Step:
    if "cleaned" in answer:
        fields = answer["cleaned"]
        return Cleaned(tuple(fields["sources"]), fields["end_offset"], fields["size"])
    if "summary" in answer:
        return Summary(**answer["summary"])
    if "paused" in answer:
        return Paused()
    raise CompactionFailedError(answer["error"], damaged=answer["damaged"])
