"""What runs in applications and mirrors: it counts what they send, and reports it.

Read :mod:`.books.tally` (the books) first, then :mod:`.producer.interceptor`; :mod:`.journal` is
what survives a kill, :mod:`.adapters` are for other clients.
"""
