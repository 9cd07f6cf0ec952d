"""What the registry knows, in memory: contexts, subjects, versions, ids, levels and modes. Pure.

Read :mod:`.subject` and :mod:`.content` (names and what a schema consists of), :mod:`.records` (the
changes), then :mod:`.catalog`, which applies them.
"""
