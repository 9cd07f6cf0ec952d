"""Consume, transform, produce: exactly once, by transactions.

::

    take messages ──► begin ──► send what they become ──► send their positions ──► commit
         ▲                               │ anything fails, or partitions move
         └── go back to the committed ◄──┴── abort

What a group has read and what was made of it are committed together, so neither is ever there
without the other: not after a kill, not when partitions move, not when a commit is in doubt. The
three things that loops written by hand forget:

* the group's metadata are those of *before* the messages were taken (KIP-447), since partitions may
  move in the middle; positions of a member that has lost them are refused, and abort;
* positions are those of the messages in the transaction, not of the partitions owned at its end;
* after an abort the consumer goes back to the committed positions, and reads the same again.

:mod:`.transforming` says what is sent for a message, :mod:`.machine` in which order all is done and
what follows an error (pure); :mod:`.copier` and :mod:`.aio` do it, for a thread and for coroutines.
"""

from tallymark.copying.aio import AsyncCopier
from tallymark.copying.copier import Copier
from tallymark.copying.transforming import Transform, positions_after, to_topic

__all__ = ["AsyncCopier", "Copier", "Transform", "positions_after", "to_topic"]
