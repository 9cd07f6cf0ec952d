"""What a row of ``mode=stamps`` stands for: the values of its column ``stamped``, and the rows that
are no records."""

from __future__ import annotations

from typing import Final

UNSTAMPED: Final = 0
STAMPED: Final = 1
BROKEN_STAMP: Final = -1
ABORTED: Final = 2
DAMAGED: Final = 3
EXPIRED: Final = 4
LEFT_OUT: Final = 5
"""Rows of UNSTAMPED and BROKEN_STAMP have no origin and no sequence; ABORTED ones are of a
transaction that was aborted, and have them if they are stamped.

The others are no records, but offsets from ``offset`` on, up to that in ``instance``. DAMAGED: the
log cannot be read there, ``server`` says why, ``timestamp`` is the newest that was read before it
(-1: none was), and ``instance`` is the offset behind it and the time of the record there, as
``"30:1700000000000"`` (-1: not known). EXPIRED: retention deleted them between the plan and the
read (``failOnDataLoss=false``). LEFT_OUT: they begin later than ``endingTimestamp`` and
``endingLateness`` say, so they were not looked at; what has an earlier time there is not counted.
"""
NO_RECORD: Final = -1
"""The ``timestampType`` of damage among records; its value says why, its key where it goes on."""


def end_of_damage(told: str) -> tuple[int, int]:
    """Of the ``instance`` of such a row: the offset behind, and the time of the record there; -1:
    not known."""
    end, _, until = told.partition(":")
    return int(end), int(until)
