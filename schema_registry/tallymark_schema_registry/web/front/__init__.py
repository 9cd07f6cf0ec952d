"""Answers from memory, before any framework code: the raw front.

Serializers send the same few requests again and again, with the same header block each time. When
the bytes of a whole request arrive on a connection that waits for one, they are split (not parsed)
and looked up; what is not found goes the ordinary way, and its answer may be remembered then::

    bytes --> header block known? --> answer remembered? --> may it have changed? --> written
                  | no                     | no                  | ask the store, once for
                  v                        v                     v all that wait
               parser --> routes --> answer --> remembered, if the route says so, with its tags
                                                     ^ dropped by changes that touch a tag

Reading order: :mod:`.remember` (what a route says), :mod:`.tags` (what a change touches),
:mod:`.answer_memory`, :mod:`.facts` (what is known of a header block), :mod:`.front` (what all
connections share) and :mod:`.protocol` (one connection).
"""
