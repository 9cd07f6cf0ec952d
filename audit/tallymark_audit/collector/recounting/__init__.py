"""Count again what is in doubt: :mod:`.recount` counts, :mod:`.chore` does it beside counting on,
:mod:`.slow_scrub` chooses what is read again without a reason.
"""
