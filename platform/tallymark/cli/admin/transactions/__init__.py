"""``tallymark transactions``: what is open, what hangs, and the end of that.

:mod:`.command` has the commands about transactional ids, :mod:`.open_ones` those about
transactions that are open in partitions, and :mod:`.abort`; what they print is in :mod:`.rows`
(pure).
"""
