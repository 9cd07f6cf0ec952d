"""How a consumer reads its partitions, however it got them.

Read :mod:`.stream` (what the application holds) first, then :mod:`.fetch_collector` (what it takes
from the queue), :mod:`.fetcher` (what fills it), then :mod:`.commit`.
"""
