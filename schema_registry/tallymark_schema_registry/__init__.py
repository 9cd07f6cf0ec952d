"""The Avro schema registry: Confluent-compatible REST over SQLite or PostgreSQL.

Rooms, upper may import lower::

    cli, embedded        run it: as a process, as a thread
    web                  HTTP: middleware (paths, content types, fast path) and routes
    service              what the registry does: register, look up, check, configure
    store                SQLAlchemy Core tables; unique constraints make registration linearizable
    schemas, levels      Avro itself: parse, canonical text, compatibility. Pure
    errors               every answer that is not a success, with its code
"""
