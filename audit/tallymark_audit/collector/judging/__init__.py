"""Judge what ends at the collector's cluster.

Read :mod:`.judge_loop` first (the edges), :mod:`.hop_loop` next (which windows of one, and when),
:mod:`.window_facts` (what the store knows of them), then :mod:`.watermark_writer`,
:mod:`.naming` (which messages are missing) and :mod:`.locate` (where they still lie).
"""
