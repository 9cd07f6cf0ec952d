"""What people and programs read. Every function takes a snapshot of the store and asks no broker.

Read :mod:`.sums` first (messages of any period, each counted once), then what pages show:
:mod:`.pulse`, :mod:`.worst`, :mod:`.series`, :mod:`.heat`, :mod:`.incidents`, :mod:`.timeline`,
:mod:`.neighbours`, :mod:`.latency` and :mod:`.age`. :mod:`.queries` and :mod:`.window_evidence` are
of verdicts themselves; :mod:`.paging` is for the API, :mod:`.alarms` for alerts and metrics.
"""
