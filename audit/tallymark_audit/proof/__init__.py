"""The proof that the audit is right: losses are planted, and the audit has to find them.

Read :mod:`.demo.run` first (one loss, step by step), then :mod:`.drill.run` (many faults under a
seed, compared message by message). What both share is in ``harness``.
"""
