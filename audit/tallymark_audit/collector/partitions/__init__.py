"""Which partitions a collector counts: :mod:`.sharing` decides, :mod:`.group_member` asks the
cluster; :mod:`.known_places` are those that exist, :mod:`.vanishing` those that were deleted.
"""
