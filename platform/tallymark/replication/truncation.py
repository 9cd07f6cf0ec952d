"""Where two logs of a partition diverge, found by leader epochs alone (KIP-101, KIP-279, KIP-595).

Both sides know at which offset each leader epoch began: a sequence of (epoch, start), ascending in
both. A follower names the epoch of its last record with each fetch; a leader in whose log that
epoch ended earlier, or is not at all, answers with the greatest epoch that it has up to there, and
that epoch's end. The follower cuts what the leader cannot have::

    leader    epochs 0 0 0 1 1 1 3 3          the follower's last epoch is 2
    follower  epochs 0 0 0 1 1 2 2            the leader has no 2: answer (1, 6)
                               cut to 5       its own epoch 1 ends at 5: done

A follower that does not know the epoch it got cuts to the end of its greatest epoch below it and
asks again. One round alone would keep too much or too little after two quick changes of the leader
(KIP-279). No replica cuts to a high watermark as long as there are epochs: a follower's own may be
behind what is committed, and a cut there would lose it (KIP-101).
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from typing import Final, NamedTuple

Epochs = Sequence[tuple[int, int]]
"""(leader epoch, the offset at which it began), ascending in both."""

UNDEFINED: Final = -1
"""As epoch or as end offset: not known."""
_ABOVE_ALL: Final = 2**63


class EpochEnd(NamedTuple):
    """A leader epoch and the offset after its last record; (-1, -1) where neither is known."""

    epoch: int
    end: int


class Cut(NamedTuple):
    """Remove everything from offset ``to`` on. If not ``done``, the place at which the logs part
    may be lower: fetch again from there, and the leader answers that."""

    to: int
    done: bool


def end_of_epoch(epochs: Epochs, log_end: int, epoch: int) -> EpochEnd:
    """The greatest epoch not above ``epoch`` and its end, of a log that ends at ``log_end``.

    The latest epoch ends where the log does. An epoch that is older than all known ones ends where
    the first known one begins. What is newer than the latest, or -1, is undefined: never the end of
    the log, or the asker keeps records that nobody else has (KAFKA-6857).
    """
    if epoch < 0 or not epochs or epoch > epochs[-1][0]:
        return EpochEnd(UNDEFINED, UNDEFINED)
    if epoch == epochs[-1][0]:
        return EpochEnd(epoch, log_end)
    above = bisect_right(epochs, (epoch, _ABOVE_ALL))
    return EpochEnd(epochs[above - 1][0] if above else epoch, epochs[above][1])


def diverging(epochs: Epochs, log_end: int, last_epoch: int, offset: int) -> EpochEnd | None:
    """A leader's answer to a follower whose log ends at ``offset`` with a record of ``last_epoch``:
    None where the leader's log has the same up to there, else what :func:`cut_for` needs.

    A follower without records (``last_epoch`` -1) has nothing that could differ. An undefined
    answer means that the follower's epoch is newer than all of the leader's.
    """
    if last_epoch < 0:
        return None
    found = end_of_epoch(epochs, log_end, last_epoch)
    return found if found.epoch < last_epoch or found.end < offset else None


def cut_for(told: EpochEnd, epochs: Epochs, log_end: int, high_watermark: int) -> Cut:
    """What a follower cuts when a leader answered ``told``; ``epochs``, ``log_end`` and
    ``high_watermark`` are its own. Never more than the leader cannot have."""
    if told.epoch < 0 or told.end < 0:
        return Cut(min(high_watermark, log_end), done=True)
    below = bisect_left(epochs, (told.epoch, -1))
    if below < len(epochs) and epochs[below][0] == told.epoch:
        own_end = epochs[below + 1][1] if below + 1 < len(epochs) else log_end
        return Cut(min(own_end, told.end, log_end), done=True)
    return _cut_to_epochs_below(told, epochs, log_end)


def _cut_to_epochs_below(told: EpochEnd, epochs: Epochs, log_end: int) -> Cut:
    """The round of KIP-279: the leader has the epoch, this log has not. All that it has of greater
    epochs goes, and what the leader has from later epochs; whether the rest is the leader's is
    asked again."""
    above = bisect_right(epochs, (told.epoch, _ABOVE_ALL))
    own_end = epochs[above][1] if above < len(epochs) else log_end
    return Cut(min(own_end, told.end, log_end), done=False)


def epochs_up_to(end: int, epochs: Epochs) -> tuple[tuple[int, int], ...]:
    """The epochs of a log that was cut to ``end``, also where no record went: an epoch that began
    at the very end without a record is gone, too."""
    return tuple(entry for entry in epochs if entry[1] < end)


def last_epoch_of(epochs: Epochs, end: int) -> int:
    """The leader epoch of the last record of a log that ends at ``end``; -1 where it has none.

    An epoch that began at the end (a leader that wrote nothing) has no record: a fetch that names
    it would make a new leader, which knows that epoch nowhere, look for a difference in vain.
    """
    number = bisect_left(epochs, end, key=_start)
    return epochs[number - 1][0] if number else UNDEFINED


def _start(entry: tuple[int, int]) -> int:
    return entry[1]
