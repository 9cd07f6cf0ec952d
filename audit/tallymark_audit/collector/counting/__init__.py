"""From fetched batches to cells and events. Pure, but for log lines.

Read :mod:`.readable` first (what of a fetch can be read), :mod:`.cells` next (runs to cells), then
:mod:`.monitoring` (monitoring events); :mod:`.comparison` holds a second count against the first.
"""
