"""What people and programs read. Every function takes a snapshot of the store and asks no broker.

Read :mod:`.queries` first (for pages and commands), :mod:`.window_evidence` (all of one window),
then :mod:`.paging` (for the API), :mod:`.watching` and :mod:`.backlogs` (for alerts and metrics).
"""
