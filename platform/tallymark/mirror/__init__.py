"""Copying topics from clusters into another, batch by batch, stamps and all.

:mod:`.mirror` is one mirror, :mod:`.several` those of a process: it polls :mod:`.source` (the
group, its offsets, what is wrong with the log) and has :mod:`.copier` send to :mod:`.target`.

* decisions, pure: :mod:`.progress` (how far a partition is safely copied, and what a batch is that
  comes again), :mod:`.repeats` (how much a kill may leave there twice), :mod:`.holes` (why offsets
  are not there), :mod:`.recoding` (records put together anew), :mod:`.target_lane` (the order at
  the target), :mod:`.offset_syncs` (which offset is which there);
* :mod:`.topics` says where things go, :mod:`.origins` what has come from there already,
  :mod:`.identity` keeps apart topics that had the same name one after the other, :mod:`.damage`
  what becomes of batches that cannot be read, :mod:`.gathering` which go out together;
* :mod:`.batch_sender` takes batches to the brokers, :mod:`.identities` gets producer ids for it;
* :mod:`.observer` is the port by which the audit hears of all that; :mod:`.news`, :mod:`.lag`,
  :mod:`.metrics` and :mod:`.status` tell people; :mod:`.translator` and :mod:`.checkpoints` bring
  consumers over.
"""

from tallymark.mirror.mirror import Mirror
from tallymark.mirror.observer import MirrorContext, MirrorObserver
from tallymark.mirror.translator import OffsetTranslator, Translated

__all__ = ["Mirror", "MirrorContext", "MirrorObserver", "OffsetTranslator", "Translated"]
