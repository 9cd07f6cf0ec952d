"""What the parts of a reconciliation hand to one another. Pure.

Read :mod:`.period` first (which windows), then :mod:`.tallies` (cells as tasks counted them),
:mod:`.resolve` (which of these are known exactly), :mod:`.search` (where missing messages may be).
"""
