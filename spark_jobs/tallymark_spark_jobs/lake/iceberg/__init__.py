"""Tables in Apache Iceberg's format, through ``pyiceberg`` and a catalogue.

Read :mod:`.table` first. Entries of files are made by :mod:`.files`, connections to the catalogue
by :mod:`.catalogue`, and :mod:`.verdicts` is the table of verdicts.
"""
