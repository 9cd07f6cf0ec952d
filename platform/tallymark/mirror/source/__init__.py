"""The source's side: batches of a group, the ids of topics, and which offsets are missing.

:mod:`.source` reads the batches; :mod:`.catalog` and :mod:`.identity` know the topics' ids,
:mod:`.holes` why an offset is not there.
"""
