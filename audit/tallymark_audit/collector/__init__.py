"""The collector: counts what lies in a cluster, alone or with others, and judges what ends there.

:mod:`tallymark_audit.model.record_runs` cuts batches into runs, :mod:`.counting` counts those into
cells, :mod:`.monitoring` reads events; :mod:`.fetching` asks the cluster and mends
(:mod:`.recount`; :mod:`.readable`: what of a fetch can be read, and how much at once;
:mod:`.holes`: damaged batches; :mod:`.known_places`: of which partitions events may speak),
:mod:`.recounting` counts again what is in doubt (:mod:`.recounted` compares, :mod:`.slow_scrub`
does so without end, :mod:`.compacted` topics are left alone); :mod:`.vanishing`: what is deleted;
:mod:`.collector` takes partitions (:mod:`.sharing`, :mod:`.group_member`) and commits through the
:mod:`.ledger`; :mod:`.judge_loop` judges, :mod:`.naming` names, :mod:`.chores` does all that as
often as it is due.
"""
