"""Tables in Delta Lake's format, through ``deltalake``: no catalogue and no JVM.

Read :mod:`.table` first. What its versions say about themselves is read by :mod:`.log`, what files
say about their columns is written by :mod:`.stats`, and :mod:`.verdicts` is the table of verdicts.
"""
