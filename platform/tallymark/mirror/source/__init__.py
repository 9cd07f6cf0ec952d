"""The source's side: batches of a group, the ids of topics, and which offsets are missing.

Read :mod:`.source` (the batches), then :mod:`.noting_consumer` and :mod:`.gaps` (why an offset is
missing), :mod:`.catalog` and :mod:`.topic_ids` (whether a topic was created again).
"""
