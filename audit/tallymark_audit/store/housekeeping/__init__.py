"""Keep the store small. :mod:`.housekeeper` is the chore, :mod:`.packing` archives what is settled
and healthy, :mod:`.retention` deletes what is old.
"""
