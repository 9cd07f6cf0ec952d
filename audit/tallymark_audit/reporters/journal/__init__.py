"""The journal of a reporter's books, so that ``kill -9`` loses no claim.

Read :mod:`.layout` first (the file, drawn), then :mod:`.file` and :mod:`.writer` (how it is kept),
:mod:`.replay` and :mod:`.reading` (how it is read; :mod:`.transactions`: what it says of an open
transaction), :mod:`.orphans` (how the journals of dead runs
are published). ``consumer_*`` are the entries of consumers, :mod:`.marks_file` their positions.
"""
