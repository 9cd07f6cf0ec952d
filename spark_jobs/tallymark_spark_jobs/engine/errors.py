"""One clear line from an error that Spark has wrapped.

An exception in a Python worker reaches the driver as text inside a Java exception, traceback and
all. Ours are therefore raised under one name, by which the driver finds their line again.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

from tallymark.errors import AuthenticationError, KafkaError, TallymarkError, UserError


class SourceError(UserError):
    """An error in the data source, in one line. Another try may succeed."""


class PermanentSourceError(SourceError):
    """An error that another try cannot mend: the driver ends the job at the first of them
    (:mod:`.permanent`), where Spark would try four times."""


_LINE = re.compile(r"^\S*\b(?:Permanent)?SourceError: (.+)$", re.MULTILINE)
_PERMANENT = re.compile(r"^\S*\bPermanentSourceError: (.+)$", re.MULTILINE)


@contextmanager
def in_one_line() -> Iterator[None]:
    """Whatever of ours, or of the network's, is raised inside becomes a :class:`SourceError`, a
    permanent one where another try cannot mend it."""
    try:
        yield
    except SourceError:
        raise
    except (TallymarkError, OSError) as error:
        kind = PermanentSourceError if is_permanent(error) else SourceError
        raise kind(" ".join(str(error).split())) from error


def is_permanent(error: BaseException) -> bool:
    """Whether another try gives the same: a person has to mend it, or a broker says so."""
    if isinstance(error, KafkaError):
        return not error.retriable
    return isinstance(error, UserError | AuthenticationError)


def permanent_line(text: str) -> str | None:
    """The line of the :class:`PermanentSourceError` in the text of a failed task, or None."""
    found = _PERMANENT.findall(text)
    return found[-1].strip() if found else None


def line_of(error: BaseException) -> str | None:
    """The line of the :class:`SourceError` that Spark has wrapped into ``error``; None: there is
    none, the failure is Spark's own."""
    if isinstance(error, UserError):
        return str(error)
    found = _LINE.findall(str(error))
    return found[-1].strip() if found else None


def from_spark(error: BaseException) -> bool:
    """Whether Spark or the bridge to its Java machine raised it."""
    return type(error).__module__.partition(".")[0] in ("pyspark", "py4j")


def as_user_error(error: BaseException, log: str) -> UserError:
    """``error``, raised by a Spark action, for people. ``log`` is where Spark's own output went."""
    line = line_of(error)
    if line is not None:
        return UserError(line)
    first = next((line for line in str(error).splitlines() if line.strip()), type(error).__name__)
    return UserError(f"Spark failed: {first.strip()[:300]}", f"see {log}")
