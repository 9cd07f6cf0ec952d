"""The audit store: what was counted, claimed and judged.

:func:`open_store` opens it; :mod:`tallymark_audit.store.reading.queries` is what dashboards and the
command line read; ``tables`` holds the schema. Only collectors and jobs write.
"""

from tallymark_audit.store.engine import Store, open_store

__all__ = ["Store", "open_store"]
