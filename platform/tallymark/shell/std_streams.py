"""Standard input, output and error of a command, when they are closed or their reader has gone.

The reader of our output may go away (``| head``): a command ends then without a message, as one
that is done. click would end it with 1, which is what it does for what
failed. A shell may also start a command with a stream closed (``>&-``), as services and cron jobs
sometimes are: Python has None for it then.
"""

from __future__ import annotations

import os
import select
import sys
from collections.abc import Iterator
from contextlib import contextmanager

_STDOUT, _STDERR = 1, 2


class ReaderGone(Exception):
    """The reader of our output went away."""


@contextmanager
def noticing_readers() -> Iterator[None]:
    """Raise ReaderGone where a write fails because no process reads our output any more."""
    try:
        yield
        sys.stdout.flush()
    except BrokenPipeError as error:
        if not any(map(_has_no_reader, (_STDOUT, _STDERR))):
            raise  # a pipe or socket of its own broke: that is a failure
        raise ReaderGone from error


def output_is_read() -> bool:
    """Whether there is a reader of standard output, as long as can be known: for a command that
    waits and writes nothing meanwhile, so that no write fails."""
    try:
        return not _has_no_reader(sys.stdout.fileno())
    except OSError:  # of a test: no file of the operating system
        return True


def drop_output() -> None:
    """Let all further output go nowhere, what Python still holds of it included."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    try:
        for stream in (sys.stdout, sys.stderr):
            if _has_no_reader(stream.fileno()):
                os.dup2(nowhere, stream.fileno())
    finally:
        os.close(nowhere)


def open_missing() -> None:
    """Put the null device where a standard stream is closed: else the first socket or file that is
    opened would get its number, and what is printed would go there."""
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        if getattr(sys, name) is not None:
            continue
        opened = os.open(os.devnull, os.O_RDWR)
        if opened != number:
            os.dup2(opened, number)
            os.close(opened)
        setattr(sys, name, open(number, "r" if number == 0 else "w", encoding="utf-8"))  # noqa: SIM115  # it stays


def _has_no_reader(descriptor: int) -> bool:
    poll = select.poll()
    poll.register(descriptor, 0)  # only what is reported without being asked for: errors
    return any(events & (select.POLLERR | select.POLLHUP) for _, events in poll.poll(0))
