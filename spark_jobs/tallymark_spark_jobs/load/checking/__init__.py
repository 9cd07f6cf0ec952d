"""Counting the rows of a table again, and what follows where its commits say something else.

Read :mod:`.differences` first (pure: what is missing, and what the audit gets), then
:mod:`.table_rows` (from files to counts) and :mod:`.check`, which does it for a table.
"""
