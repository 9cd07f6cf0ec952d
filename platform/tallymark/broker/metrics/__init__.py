"""The broker's counters: plain numbers that the event loop adds to.

Read :mod:`.counters` first; :mod:`.error_codes` finds the codes in responses.
:mod:`tallymark.broker.monitoring` serves the numbers.
"""
