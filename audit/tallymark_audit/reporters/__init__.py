"""What runs in applications and mirrors: it counts what they send and process, and reports it.

Read ``books`` first (what is counted), then ``producer`` and ``consumer`` (which count);
``journal`` keeps the books through ``kill -9``, ``adapters`` are for producers of other libraries,
``mirror`` reports how far a mirror has copied.
"""
