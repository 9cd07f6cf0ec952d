"""Checks and changes of a batch before a log appends it.

Read :mod:`.preparation` (all steps), :mod:`.batch` and :mod:`.records` (the checks),
:mod:`.append_time` and :mod:`.recompression` (what may be changed).
"""
