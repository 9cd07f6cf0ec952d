"""Where changes and texts are kept: SQLite or PostgreSQL.

Read :mod:`.layout` first (the tables), then :mod:`.sql_store` (every transaction), with
:mod:`.changes` (its values and errors), :mod:`.rows` (what changes amount to, pure) and
:mod:`.statements`. :mod:`.watch` notices what other processes have written. :mod:`.opening` opens
the database, with :mod:`.migrations` and :mod:`.same_file`; :mod:`.loading` reads it at a start.
"""
