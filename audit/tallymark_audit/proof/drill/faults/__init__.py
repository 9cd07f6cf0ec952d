"""The faults of a drill: on the wire, in the log of a dead broker, and the record of each.

Read :mod:`.kinds` (the kinds of faults) and :mod:`.ground_truth` (the record) first, then
:mod:`.fault_injector` with :mod:`.proxy`, then :mod:`.log_faults` and :mod:`.at_rest`.
"""
