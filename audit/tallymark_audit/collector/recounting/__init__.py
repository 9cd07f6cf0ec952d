"""Count again what is in doubt.

Read :mod:`.chore` first (does it beside counting on), :mod:`.recount` next (the counting), then
:mod:`.slow_scrub` (chooses what is read again without a reason).
"""
