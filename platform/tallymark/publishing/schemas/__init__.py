"""The Avro schema of the rows, and each row as a value of that schema.

``choose`` decides which schema a run uses and registers it. ``inference`` makes one from a sample
of rows, with ``shapes`` (which types a column has shown) and ``names`` (names that Avro allows).
``fitting`` turns a row into the value to encode, or says why it does not fit.
"""
