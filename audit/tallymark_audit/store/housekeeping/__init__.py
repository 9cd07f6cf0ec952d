"""Keep the store small: a chore of the collector that judges the cluster.

Read :mod:`.housekeeper` first (what is done, and when), :mod:`.packing` next (which windows are
settled and healthy, and how they are archived), then :mod:`.retention` (what is old and deleted).
"""
