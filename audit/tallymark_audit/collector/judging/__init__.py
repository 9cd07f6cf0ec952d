"""Judge what ends at the collector's cluster.

Read :mod:`.judge_loop` first (which windows, when), :mod:`.window_facts` next (what the store
knows of them), then :mod:`.watermark_writer`, :mod:`.naming` (which messages are missing) and
:mod:`.locate` (where they still lie).
"""
