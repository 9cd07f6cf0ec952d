"""The source's side: batches of a group, the ids of topics, and which offsets are missing.

:mod:`.source` reads the batches; :mod:`.catalog` and :mod:`.topic_ids` know the topics' ids,
:mod:`.gaps` why an offset is not there.
"""
