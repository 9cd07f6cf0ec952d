"""Count again what is in doubt.

Read :mod:`.chore` first (when, and what is written), :mod:`.recount` next (the counting), then
:mod:`.slow_scrub` (which windows are read again without a request).
"""
