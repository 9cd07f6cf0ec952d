"""Moving schemas between registries, ids and versions kept: over REST, files, topics.

::

    a file, a registry over REST, a Kafka topic  ->  Snapshot  ->  a file
                                                       |
                         plan (source, target)  ->  Import into a registry over REST  ->  verified

Pure: :mod:`.lines` (keys and values of the topic ``_schemas``, as JSON lines), :mod:`.snapshot`
(what they amount to), :mod:`.same` (when two contents are the same, by :mod:`.avro_tree`) and
:mod:`.plan` (what an import has to do).
Around them: :mod:`.schema_file`, :mod:`.topic`, :mod:`.remote` (one registry over REST),
:mod:`.reading` (its snapshot) and :mod:`.importing`.
"""
