"""Repair: copy exactly the missing messages from upstream.

Read in this order: :mod:`.plan` (which messages, of :mod:`.items`; :mod:`.refusals` and
:mod:`.elsewhere` where that cannot be) and its file :mod:`.plan_file`; :mod:`.upstream` (what is
still there); :mod:`.apply` with :mod:`.portion` (read) and :mod:`.decide`; :mod:`.verify`. What the
lake lacks is not copied, it is loaded again: :mod:`.reloads`. :mod:`.repairable` says what could be
repaired, from the store alone, with :mod:`.gone` and :mod:`.next_steps`.
"""

from tallymark_audit.repair.apply import ItemResult, apply_plan
from tallymark_audit.repair.items import MissingRun, RepairItem
from tallymark_audit.repair.next_steps import Known, Step
from tallymark_audit.repair.plan import NotRepaired, RepairPlan, make_repair_plan
from tallymark_audit.repair.plan_file import read_plan, to_json, write_plan
from tallymark_audit.repair.reloads import Reload, reloads_of
from tallymark_audit.repair.repairable import (
    NotRepairable,
    Repairability,
    repairability,
    repairable,
)
from tallymark_audit.repair.upstream import Clusters, UpstreamCheck, check_upstream
from tallymark_audit.repair.verify import OpenWindow, still_open, wait_until_good

__all__ = [
    "Clusters",
    "ItemResult",
    "Known",
    "MissingRun",
    "NotRepairable",
    "NotRepaired",
    "OpenWindow",
    "Reload",
    "RepairItem",
    "RepairPlan",
    "Repairability",
    "Step",
    "UpstreamCheck",
    "apply_plan",
    "check_upstream",
    "make_repair_plan",
    "read_plan",
    "reloads_of",
    "repairability",
    "repairable",
    "still_open",
    "to_json",
    "wait_until_good",
    "write_plan",
]
