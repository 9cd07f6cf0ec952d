"""Where schemas are kept: SQLite or PostgreSQL, through SQLAlchemy Core.

Read ``tables`` first, then ``store`` (every query and every transaction); ``open`` opens the
database and creates the tables.
"""

from tallymark_schema_registry.store.open import open_engine
from tallymark_schema_registry.store.store import Conflict, Store, Stored

__all__ = ["Conflict", "Store", "Stored", "open_engine"]
