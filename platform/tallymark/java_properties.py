"""The ``name=value`` lines of a Java properties file, as Apache Kafka's settings have them. Pure.

::

    # a comment              ! another
    log.dirs=/data/a,\\
             /data/b         a backslash continues on the next line
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from tallymark.errors import UserError


def pairs(text: str, file: str, spelled: Callable[[str], str] = str) -> dict[str, str]:
    """The names and values of a file; ``spelled`` returns the name that a name stands for. ``file``
    is for errors. UserError: a line is no setting, or a name is there twice."""
    values: dict[str, str] = {}
    for number, line in _lines(text):
        name, value = _pair(line, f"{file} line {number}")
        name = spelled(name)
        if name in values:
            raise UserError(f"{file} line {number}: {name} is set twice", "leave one of them")
        values[name] = value
    return values


def _lines(text: str) -> Iterator[tuple[int, str]]:
    """Logical lines with the number of their first; without comments and empty ones."""
    begun, first = "", 0
    for number, line in enumerate(text.splitlines(), 1):
        line = line.strip()
        if not begun:
            first = number
            if not line or line[0] in "#!":
                continue
        if line.endswith("\\"):
            begun += line[:-1]
            continue
        yield first, begun + line
        begun = ""
    if begun:
        yield first, begun


def _pair(line: str, where: str) -> tuple[str, str]:
    found = min((line.index(sign) for sign in "=:" if sign in line), default=-1)
    if found < 1:
        # Not all of the line: what should have been the value may be a secret.
        raise UserError(f"{where}: {line.split()[0][:80]!r} is not name=value")
    return line[:found].strip(), line[found + 1 :].strip()
