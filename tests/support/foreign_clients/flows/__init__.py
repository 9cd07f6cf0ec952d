"""Clients at work while brokers fail: each sends numbers with acks=all, and with idempotence, to
partition 0 of a topic of its own, and reads them as the one member of a group.

:mod:`.flow` is what they have in common, :data:`.every.FLOWS` names them all.
"""
