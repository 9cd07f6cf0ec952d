"""The books of one reporter: runs of sequences by window, as claims.

Read :mod:`.tally` first, then :mod:`.tally_cell`.
"""
