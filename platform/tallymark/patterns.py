"""Regular expressions that people write to choose topics and groups: in settings files, as options
of commands, as arguments.

Python refuses one in three ways: with ``re.error``, with OverflowError (``a{99999999999}``) and
with RecursionError (thousands of open parentheses). Here all of them are one error that shows the
expression.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from tallymark.errors import UserError


def compile_pattern(pattern: str) -> re.Pattern[str]:
    """The expression, compiled. ValueError that says why it is none."""
    try:
        return re.compile(pattern)
    except (re.error, OverflowError, RecursionError) as error:
        raise ValueError(f"{_shown(pattern)} is not a regular expression: {error}") from None


def pattern_given(what: str, pattern: str, do: str = "mend the pattern") -> re.Pattern[str]:
    """The expression that a person gave as ``what`` (``--topic``), compiled. UserError that names
    both, and says to ``do`` something about it."""
    try:
        return compile_pattern(pattern)
    except ValueError as error:
        raise UserError(f"{what} {error}", do) from None


def require_patterns(section: str, patterns: Iterable[str]) -> None:
    """For the checks of settings: ValueError that names the ``section`` with a wrong expression."""
    for pattern in patterns:
        try:
            compile_pattern(pattern)
        except ValueError as error:
            raise ValueError(f"{section}: {error}") from None


def _shown(pattern: str, most: int = 200) -> str:
    return repr(pattern) if len(pattern) <= most else f"{pattern[:most]!r}..."
