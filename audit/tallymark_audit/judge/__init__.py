"""From what both sides report to a verdict. Pure: no I/O, no clock.

Read in this order: :mod:`.fact_source` (what has to be known), :mod:`.windows` (how it is put
together), :mod:`.hops` (both ends of an edge under one name), :mod:`.copy_progress` (how far its
mirror or group is), :mod:`.assemble` (cells), :mod:`.readiness` (what may be believed yet),
:mod:`.findings` and :mod:`.unnamed` (what is found), :mod:`.verdicts` (the
judgement), :mod:`.watermarks`.
"""
