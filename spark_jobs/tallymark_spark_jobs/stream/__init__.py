"""The load as a stream: the same commits under Structured Streaming.

Read :mod:`.query` first (the query and its end), then :mod:`.batches` (a micro-batch is a load up
to the batch's offsets) and :mod:`.ends` (the source: it says how far each batch goes, and reads no
record).
"""
