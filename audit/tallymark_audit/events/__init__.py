"""The monitoring events: what reporters publish on the audit topic, and what is taken from it.

Read :mod:`.events` first, :mod:`.event_codec` next (the bytes; the schema of each version is in
:mod:`.event_schema`), :mod:`.event_checks` (what an event must not say), then :mod:`.claim_book`
(from a stream of events to claims and reporters).
"""
