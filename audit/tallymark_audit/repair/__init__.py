"""Repair: copy exactly the missing messages from upstream.

:mod:`.plan` says which, with :mod:`.refusals` where that cannot be and :mod:`.elsewhere` where they
lie then, and is a file that a person can read first (:mod:`.plan_file`); :mod:`.looking` asks what
upstream still has; :mod:`.apply` copies, :mod:`.placing` knows where to;
:mod:`.verify` waits until the windows are judged again.
"""

from tallymark_audit.repair.apply import Mended, apply_plan
from tallymark_audit.repair.items import Item, Place
from tallymark_audit.repair.looking import Clusters, Looked, look
from tallymark_audit.repair.plan import Left, Plan, make_plan
from tallymark_audit.repair.plan_file import read_plan, to_json, write_plan
from tallymark_audit.repair.verify import Open, still_open, wait_until_good

__all__ = [
    "Clusters",
    "Item",
    "Left",
    "Looked",
    "Mended",
    "Open",
    "Place",
    "Plan",
    "apply_plan",
    "look",
    "make_plan",
    "read_plan",
    "still_open",
    "to_json",
    "wait_until_good",
    "write_plan",
]
