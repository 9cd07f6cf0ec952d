"""What the broker counts while it works: plain numbers.

Read :mod:`.counters` first; :mod:`.error_codes` finds the codes in responses.
"""
