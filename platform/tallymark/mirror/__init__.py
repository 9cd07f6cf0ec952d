"""Copying topics from one cluster into another, message by message, stamps and all.

:mod:`.mirror` is the process: it polls :mod:`.source` (the group, its offsets, what is wrong with
the log) and has :mod:`.copier` send to :mod:`.target`. :mod:`.progress` decides how far a
partition is safely copied and what a message is that comes again, :mod:`.holes` why offsets are
not there (both pure); :mod:`.identity` keeps apart topics that had the same name one after the
other. :mod:`.observer` is the port by which the audit hears of all that.
"""

from tallymark.mirror.mirror import Mirror
from tallymark.mirror.observer import MirrorContext, MirrorObserver

__all__ = ["Mirror", "MirrorContext", "MirrorObserver"]
