"""From a batch of the source to batches for the target, and which of them have arrived.

Read :mod:`.copier`; it calls :mod:`.topics` (where a batch goes), :mod:`.merging` and
:mod:`.gathered` (records for new batches; :mod:`.recoding` is the pure path),
:mod:`.duplicate_bound` (how much may be open) and :mod:`.gap_reports` (what is not copied, and
why).
"""
