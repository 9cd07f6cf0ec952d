"""Produce and Fetch written by hand: the same bytes as the declared messages, in less time.

Read :mod:`.produce` (the broker's side), :mod:`.produce_client`, :mod:`.fetch`; :mod:`.lengths` is
for all of them.
"""
