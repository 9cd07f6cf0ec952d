"""The Avro schema registry: Confluent-compatible REST over SQLite or PostgreSQL.

A state machine over a log of changes that is kept in SQL: every process has the catalog in memory,
and applies the same changes in the same order. Rooms, upper may import lower::

    cli, embedded        run it: as a process, as a thread
    transfer             import and export, over REST and over a Kafka topic
    web                  HTTP: routes, response profiles, answers from memory
    access               users, tokens, roles
    node                 one process: commands in, answers out; one writer, reads that are current
    store                SQL: tables, migrations, transactions
    decisions            what a request changes, decided on the catalog. Pure
    catalog              all that the registry knows but the texts. Pure
    schemas, levels      Avro itself: parse, canonical text, compatibility. Pure
    errors               every answer that is not a success, with its code
"""
