"""The books of one reporter: for each window, what was accepted and what became of it. Pure.

Read :mod:`.tally` first (all cells of a run, and its reports), then :mod:`.tally_cell` (one cell).
:mod:`.runs` cuts a batch by windows, :mod:`.skew` finds timestamps that cannot be.
"""
