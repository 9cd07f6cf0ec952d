"""What the audit counts and compares: cells, ranges, sides, edges. Pure.

Read :mod:`.cells` first, then :mod:`.ranges` and :mod:`.sides`.
"""
