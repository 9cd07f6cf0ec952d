"""Copying topics from clusters into another, batch by batch, stamps and all.

:mod:`.mirror` is one mirror, :mod:`.mirrors` those of a process. A mirror polls :mod:`.source`
(batches of a group), passes them through :mod:`.copying` and sends them to :mod:`.target`.
:mod:`.progress` decides how far a partition is safely copied. :mod:`.offsets` moves consumers over,
:mod:`.monitoring` reports, :mod:`.observer` is the port of the audit. Begin with :mod:`.mirror`.
"""

from tallymark.mirror.mirror import Mirror
from tallymark.mirror.observer import MirrorContext, MirrorObserver
from tallymark.mirror.offsets.translator import OffsetTranslator, Translated

__all__ = ["Mirror", "MirrorContext", "MirrorObserver", "OffsetTranslator", "Translated"]
