"""What people and programs read: :mod:`.queries` for pages and commands, :mod:`.paging` for the
API, :mod:`.watching` for alerts and metrics. Every function takes a snapshot of the store.
"""
