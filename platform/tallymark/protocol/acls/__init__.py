"""Access control in Kafka's words: who may do which operation on which resource.

Read :mod:`.words` (names and numbers), then :mod:`.entry` (one entry of a list).
"""
