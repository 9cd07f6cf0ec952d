"""Repair: copy exactly the missing messages from upstream.

Read in this order: :mod:`.plan` (which messages, of :mod:`.items`; :mod:`.refusals` and
:mod:`.elsewhere` where that cannot be) and its file :mod:`.plan_file`; :mod:`.upstream` (what is
still there); :mod:`.apply` with :mod:`.portion` (read) and :mod:`.decide`; :mod:`.verify`. What the
lake lacks is not copied, it is loaded again: :mod:`.reloads`. :mod:`.repairable` says what could be
repaired, from the store alone, with :mod:`.gone` and :mod:`.next_steps`.

Nothing is imported here: code that only shows what could be repaired does not load the clients that
copy.
"""
