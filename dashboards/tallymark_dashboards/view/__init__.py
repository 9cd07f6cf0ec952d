"""How things look: marks of states, rows of tables, strips of windows. Pure: no store, no clock.

Read ``marks`` (how a state is shown), ``clock`` and ``strip`` (windows on the one axis of a page),
then ``topic_rows`` (rows of the store → rows of a page) and ``charts``.
"""
