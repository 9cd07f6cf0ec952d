"""One segment of a log with its two sparse indexes, the list of segments, and lookups in them.

Read :mod:`.scan` (batches in a file), :mod:`.offset_index`, :mod:`.time_index`, :mod:`.indexes`
(both), :mod:`.segment`, :mod:`.segment_list`, then :mod:`.time_search` and :mod:`.offset_lookup`.
"""
