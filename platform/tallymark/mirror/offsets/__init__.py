"""Which offset of the source is which offset of the target, so that consumers can move over.

Read :mod:`.offset_syncs` (the pairs), :mod:`.offset_sync_writer` (publishes them),
:mod:`.translator` (one lookup), :mod:`.checkpoints` (the committed offsets of whole groups).
"""
