"""Kafka's classic group protocol, the client's side.

Read the room :mod:`.state_machine` (the decisions, pure) first, then :mod:`.coordinator` (does what
they say, for a connector) and :mod:`.coordinator_requests` (asks the brokers).
"""
