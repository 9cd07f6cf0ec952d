"""Which partitions a collector counts.

Read :mod:`.sharing` first (it decides) and :mod:`.group_member` next (it asks the cluster);
:mod:`.known_places` are the partitions that exist, :mod:`.vanishing` those that were deleted.
"""
