"""What the pages about clusters, groups, messages and schemas show. Pure.

:mod:`.stale` (what is not known any more), :mod:`.group_lag`, :mod:`.topology`; of messages
:mod:`.decoded` with :mod:`.masks`; :mod:`.schema_texts`.
"""
