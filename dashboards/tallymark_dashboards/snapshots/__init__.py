"""The state of the clusters, their groups and the schema registry, as a background task last read
it. Pages read it from memory and never ask a broker.

Read :mod:`.shapes` (what pages get), :mod:`.registry_shapes`, then :mod:`.holder`. How groups are
judged is pure: :mod:`.course` (ends of logs in time), :mod:`.status`.
"""
