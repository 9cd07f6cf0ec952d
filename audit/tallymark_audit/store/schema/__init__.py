"""The tables of the store, and how a row becomes what it means and back.

Read :mod:`.tables` first (then :mod:`.counted_tables`, :mod:`.judged_tables`), :mod:`.rows` next;
:mod:`.migrations` brings the tables of an older version up to date.
"""
