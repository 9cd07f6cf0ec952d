"""From what both sides say to a verdict.

Pure, in this order: :mod:`.hops` (both ends of an edge under one name), :mod:`.passing` (how far
its mirror or group is), :mod:`.assemble` (cells), :mod:`.gate` (what may be believed yet),
:mod:`.findings` and :mod:`.counted` (what is found), :mod:`.verdicts` (the judgement),
:mod:`.watermarks`. :mod:`tallymark_audit.collector.window_facts` asks the store.
"""
