"""Log compaction: of every key the last record stays (Kafka's log cleaner).

Read :mod:`.plan` (which log, which segments) first, then :mod:`.compaction` (the run),
:mod:`.filter` (what stays) and :mod:`.swap` (how new segments take the place of old ones).
"""
