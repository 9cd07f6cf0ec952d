"""What the application has in hand of a partition, kept where it survives the process.

A hook gives memory for it (:meth:`~tallymark.client.consuming.hooks.Hooks.view`), in practice a
mapped file, of two signed 64-bit numbers::

    0        8        16
    +--------+--------+
    |  done  |  last  |     every message that was handed out before the offset ``done`` is dealt
    +--------+--------+     with; ``done`` to ``last``, both included, may be in hand

``last`` is ONE where only the message at ``done`` may be, so that iterating writes one number a
message; less than ``done`` (NONE) where nothing is in hand. Where asking for the next message does
not say that one is done with those before (``enable_auto_commit=False``), ``done`` stays where
handing out began, and ``last`` is written for each message.

Writing is a function in C, called while the message is made, before the application has it: some
60 ns, and no Python code between two messages (:mod:`.reading`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from itertools import filterfalse
from typing import Final

ONE: Final = -1
NONE: Final = -2
_DONE, _LAST = 0, 1


class Marks:
    """Of one partition; ``views`` are of format "q" and two long. Without any it does nothing."""

    __slots__ = ("_asking_settles", "_views")

    def __init__(self, views: Sequence[memoryview] = (), asking_settles: bool = True) -> None:
        self._views = views
        self._asking_settles = asking_settles

    def hand_out(self, first: int, last: int) -> None:
        """The messages at these offsets are handed out at once."""
        for view in self._views:
            if not self._asking_settles and 0 <= view[_DONE] < first:
                first = view[_DONE]
            view[_LAST] = last  # more may be in hand for a moment, never less
            view[_DONE] = first

    def hand_out_one(self, offset: int) -> None:
        """One message is handed out; those that :meth:`follow` come without further word."""
        self.hand_out(offset, offset)
        if self._asking_settles:
            for view in self._views:
                view[_LAST] = ONE

    def follow(self, offsets: Iterator[int]) -> Iterator[int]:
        """The same offsets; each is written down when it is taken."""
        at = _DONE if self._asking_settles else _LAST
        for view in self._views:
            offsets = filterfalse(partial(view.__setitem__, at), offsets)
        return offsets

    def settle(self, offset: int) -> None:
        """A thread that asks for more has nothing in hand, and has finished all before"""
        if self._asking_settles:
            for view in self._views:
                view[_DONE] = offset
                view[_LAST] = NONE


NO_MARKS: Final = Marks()
