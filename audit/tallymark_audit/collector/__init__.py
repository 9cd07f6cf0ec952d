"""The collector: one beside each cluster, counts what lies there and judges what ends there.

:mod:`.counting` counts batches, :mod:`.reading` asks the cluster, :mod:`.collector` puts both
together and commits, :mod:`.recount` mends the counts when a log was cut, :mod:`.judge_loop`
judges.
"""
