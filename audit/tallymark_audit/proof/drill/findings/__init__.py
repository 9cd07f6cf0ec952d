"""What the audit says about a drill, read from its store as a user reads it.

Read :mod:`.found` first (verdicts and what they name), then :mod:`.detection_times` (when each was
first there) and :mod:`.taken_back` (alarms that were withdrawn).
"""
