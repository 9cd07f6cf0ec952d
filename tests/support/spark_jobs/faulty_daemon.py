"""The Python of an executor, with one fault (``spark.python.daemon.module=faulty_daemon``).

The first task of the whole job that opens a consumer does what ``FAULT`` says: ``fail`` raises,
``hang`` waits to be killed. It writes its process id to ``FAULT_FILE``, by which others know that
the fault has happened.
"""

from __future__ import annotations

import os
import time
from typing import Any

from pyspark import TaskContext
from pyspark.daemon import manager

import tallymark
from tallymark.client import SimpleConsumer


def make_faulty() -> None:
    """From now on the first consumer of a task is the last of its process."""
    begin = SimpleConsumer.__init__

    def first_fails(self: SimpleConsumer, *given: Any, **named: Any) -> None:
        if TaskContext.get() is not None and _is_first():
            if os.environ["FAULT"] == "fail":
                raise RuntimeError("the disk of this machine is broken")
            time.sleep(600)
        begin(self, *given, **named)

    SimpleConsumer.__init__ = first_fails  # type: ignore[method-assign]


def _is_first() -> bool:
    try:
        file = os.open(os.environ["FAULT_FILE"], os.O_CREAT | os.O_EXCL | os.O_WRONLY)
    except FileExistsError:
        return False
    with os.fdopen(file, "w") as told:
        told.write(f"{os.getpid()} {tallymark.__file__}")
    return True


if __name__ == "__main__":
    make_faulty()
    manager()
