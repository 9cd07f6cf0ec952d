"""Reading without a group: the simple consumer, fetching, and what a fetch returns.

Read :mod:`.simple_consumer` first, then :mod:`.fetched` (positions and results), :mod:`.fetching`
and :mod:`.fetch_request`.
"""
