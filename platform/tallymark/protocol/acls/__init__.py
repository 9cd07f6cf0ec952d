"""Access control in Kafka's words: which principal may do which operation on which resource.

Read :mod:`.words` (names and numbers), :mod:`.entry` (one entry of a list), :mod:`.filter` (which
entries a request asks for) and :mod:`.text` (entries as they are stored and printed).
"""
