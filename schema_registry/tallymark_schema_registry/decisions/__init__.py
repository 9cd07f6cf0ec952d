"""What a request changes or answers, decided on the catalog alone. Pure: no I/O, no clock.

Read :mod:`.commands` first: the commands, the answers, and how a decision asks for what only texts
show. :mod:`.decide` is the entry point of all commands; :mod:`.independence` says which of them may
share a transaction. :mod:`.register` with :mod:`.asking` and :mod:`.comparing` is the longest way.
:mod:`.lists` and :mod:`.by_id` read, with :mod:`.scope` for what is in force.
"""
