"""The audit as pandas DataFrames, for notebooks and reports.

>>> from tallymark_audit import frames                                    # doctest: +SKIP
>>> with frames.open_audit("tallymark.toml") as audit:                    # doctest: +SKIP
...     judged = audit.verdicts(topic="clicks", start="2026-01-31")
...     frames.completeness(judged, by="1h")

Read :mod:`.audit` first (what is in the store), :mod:`.reports` (what a reconciliation wrote), then
:mod:`.shares` (completeness). :mod:`.columns` has the types: times are UTC, states are ordered.

pandas comes with the extra ``frames``; it is imported by the first call, not by the import of this
package.
"""

from tallymark_audit.frames.audit import AuditFrames, open_audit
from tallymark_audit.frames.reports import ReportFrames, read_report, verdicts_of
from tallymark_audit.frames.shares import completeness

__all__ = [
    "AuditFrames",
    "ReportFrames",
    "completeness",
    "open_audit",
    "read_report",
    "verdicts_of",
]
