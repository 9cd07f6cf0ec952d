"""Bounds on the work that one request may cause on schemas.

Every walk over a schema is linear in its text but for three: unions against unions, defaults
against unions of records, and a definition that is written again. A text of 100 kB can make each
of them take minutes and gigabytes. So each walk spends steps, and a walk that has none left
ends with an error instead of an answer. A step is about a microsecond, and at most some 100 bytes
that stay in memory as long as the request.
"""

from __future__ import annotations

from typing import Final

from tallymark.errors import TallymarkError

FULL: Final = 600_000
"""Steps of one request, all the versions that it is compared with included: the largest schema
that is taken (1 MiB, 30,000 fields) is parsed, compared with another one of its size in both
directions, and leaves a sixth of them."""

LIGHT: Final = 20_000
"""What nearly all schemas need less than: some 1,000 fields parsed and compared."""

NODE: Final = 3
"""For a type or field that is parsed, or a pair of types that is remembered."""

MAX_DEPTH: Final = 150
"""Types within types. Real schemas stay below 20; every walk over the tree recurses so deep, a few
frames a level, beneath a web server that uses some itself of the interpreter's 1,000."""


class TooLargeError(TallymarkError):
    """The budget is spent; names the work."""


class Budget:
    """Steps that are left. ``doing`` is what the error says was too much."""

    def __init__(self, steps: int = FULL) -> None:
        self.left = steps
        self.doing = "to parse"

    def spend(self, steps: int = 1) -> None:
        """Raises :class:`TooLargeError` where there are not so many steps left."""
        self.left -= steps
        if self.left < 0:
            raise TooLargeError(f"it is too large, or too much entangled, {self.doing}")
