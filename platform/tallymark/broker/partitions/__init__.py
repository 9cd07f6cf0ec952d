"""The partitions that this broker leads or follows, one owner for each.

Read :mod:`.partition` first, then :mod:`.append_queue` and :mod:`.commit_waits`, which it drives,
and :mod:`.lead`, what it asks of its leader's side if it has several replicas; :mod:`.table` holds
all of them.
"""
