"""What a request changes, decided on the catalog alone: no I/O, no clock, no texts. Pure.

Read :mod:`.commands` first: the commands, the answers, and how a decision asks for what only texts
tell.
"""
