"""What a person sees of a job: a bar for the step that runs, and a line for each finished one.

::

    steps = Steps(print_line)
    with steps.step("count", "counting yesterday in dc1", rows=2_000_000) as step:
        ...                                 # Spark's actions: the bar follows their tasks
        step.note = "1,999,871 messages"    # what the line of the finished step adds

On a terminal the bar has rows, rate and what is left; elsewhere there is a line now and then. The
line of a finished step begins with how long it took.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from tallymark.shell.progress import Meter, progress
from tallymark_spark_jobs.engine.tasks import NO_TASKS, Tasks, tasks_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Say = Callable[[str], object]
LOOK_EVERY_S: Final = 0.25
"""Between two looks at Spark's tasks, which cost a call into its Java machine a stage."""


class Steps:
    """The steps of one job. ``say`` gets each line; ``quiet`` leaves out bars, for a job that no
    person waits for. ``seconds`` has how long each step took, repeated ones added up."""

    def __init__(self, say: Say, *, quiet: bool = False) -> None:
        self.say = say
        self.seconds: dict[str, float] = {}
        self._quiet = quiet
        self._tasks: Tasks = NO_TASKS

    def watch(self, spark: SparkSession) -> None:
        """From now on the bars follow the tasks of this session."""
        self._tasks = tasks_of(spark)

    @contextmanager
    def step(self, name: str, text: str, rows: int | None = None) -> Iterator[Step]:
        """Run the block as one step: ``name`` for ``seconds``, ``text`` for people. ``rows``: how
        many records it reads, as far as planned. An exception passes, without a line."""
        step = Step(rows)
        began = time.monotonic()
        try:
            shown = progress(text, rows, self._still(text), quiet=self._quiet, keep=False)
            with shown as meter, _watched(step, meter, self._tasks, began):
                yield step
        finally:
            taken = time.monotonic() - began
            self.seconds[name] = self.seconds.get(name, 0.0) + taken
        self.say(f"{taken:6.1f} s  {text}{f': {step.note}' if step.note else ''}")

    def _still(self, text: str) -> Say:
        """The line of a step that goes on, where there is no terminal."""
        return lambda state: self.say(f"          {text}: {state}")


@dataclass(slots=True)
class Step:
    """The step that runs. ``rows``: records to read, None if not known. ``read``: records read, for
    a step that counts them itself; else the share of Spark's tasks that have ended stands for it.
    ``note``: what the line of the finished step adds."""

    rows: int | None = None
    read: int = 0
    note: str = ""
    tasks: tuple[int, int] = (0, 0)
    """Spark's: ended, all."""

    @property
    def done(self) -> int:
        """How many of ``rows`` are read, as far as is known; never falls below ``read``."""
        ended, known = self.tasks
        by_tasks = self.rows * ended // known if self.rows is not None and known else 0
        return max(self.read, by_tasks)


def described(step: Step, seconds: float) -> str:
    """``step`` after ``seconds``, in words: rows, rate, what is left; tasks if rows are unknown."""
    if not step.rows:
        ended, known = step.tasks
        return f"{ended} of {known} tasks" if known else f"{seconds:.0f} s"
    done = min(step.done, step.rows)
    text = f"{done:,} of {step.rows:,} rows"
    if not done or not seconds:
        return text
    rate = done / seconds
    return f"{text}, {rate / 1e6:.2f} M/s, {(step.rows - done) / rate:.0f} s left"


@contextmanager
def _watched(step: Step, meter: Meter, tasks: Tasks, began: float) -> Iterator[None]:
    """A thread looks at the tasks while the block runs, which is busy with Spark's actions."""
    ended = threading.Event()

    def look() -> None:
        counted = tasks()
        while not ended.wait(LOOK_EVERY_S):
            step.tasks = counted()
            meter.tick(lambda: (step.done, described(step, time.monotonic() - began)))

    thread = threading.Thread(target=look, name="tallymark-progress", daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
