"""Repair: copy exactly the missing messages from upstream.

:mod:`.plan` says which, with :mod:`.refusals` where that cannot be, and is a file that a person can
read first (:mod:`.plan_file`); :mod:`.apply` copies, :mod:`.placing` knows where to;
:mod:`.verify` waits until the windows are judged again.
"""

from tallymark_audit.repair.apply import Clusters, Mended, apply_plan
from tallymark_audit.repair.plan import Item, Left, Place, Plan, make_plan
from tallymark_audit.repair.plan_file import read_plan, to_json, write_plan
from tallymark_audit.repair.verify import Open, still_open, wait_until_good

__all__ = [
    "Clusters",
    "Item",
    "Left",
    "Mended",
    "Open",
    "Place",
    "Plan",
    "apply_plan",
    "make_plan",
    "read_plan",
    "still_open",
    "to_json",
    "wait_until_good",
    "write_plan",
]
