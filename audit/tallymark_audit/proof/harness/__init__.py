"""What the drill and the demo share.

Read :mod:`.commands` first (a ``tallymark`` command as a process, with its log), then
:mod:`.power_failure` (the end of a segment is cut). :mod:`.narrate` prints the steps.
"""
