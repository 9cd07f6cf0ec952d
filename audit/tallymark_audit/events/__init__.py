"""The monitoring events: their format, and what is taken from them.

Read :mod:`.events` first (the layout is drawn in :mod:`.event_schema`), then :mod:`.claim_book`.
"""
