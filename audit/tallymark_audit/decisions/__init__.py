"""What people decide about the audit: one way for commands and for the pages of the dashboards.

Read ``deciding``: each function changes the store, notes in it the author, and adds a line to the
trail of administrators. Repairs are decisions too; they are in :mod:`tallymark_audit.repair`.
"""

from tallymark_audit.decisions.deciding import Decider

__all__ = ["Decider"]
