"""Repair: copy exactly the missing messages from upstream. :mod:`.plan` says which, and is a file a
person can read first; :mod:`.apply` copies and verifies."""

from tallymark_audit.repair.apply import Mended, apply_plan
from tallymark_audit.repair.plan import Item, Plan, make_plan, read_plan, write_plan

__all__ = ["Item", "Mended", "Plan", "apply_plan", "make_plan", "read_plan", "write_plan"]
