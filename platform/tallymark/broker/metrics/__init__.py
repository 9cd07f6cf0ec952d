"""What the broker counts while it works: plain numbers, added to in the event loop.

Read :mod:`.counters` first; :mod:`.error_codes` finds the codes in responses. How the numbers
are shown is in :mod:`tallymark.broker.monitoring`.
"""
