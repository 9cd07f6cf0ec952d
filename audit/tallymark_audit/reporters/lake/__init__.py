"""What a load into the data lake reports: the tallies of its commits.

Read :mod:`.tallies` first (what a load gives), then :mod:`.commit_events` (the events they become)
and :mod:`.reports`, which publishes them.
"""

from tallymark_audit.reporters.lake.reports import LakeReports
from tallymark_audit.reporters.lake.tallies import LakeCommit, LakeGap, LakeTally, LoadedThrough

__all__ = ["LakeCommit", "LakeGap", "LakeReports", "LakeTally", "LoadedThrough"]
