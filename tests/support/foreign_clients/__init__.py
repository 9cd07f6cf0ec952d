"""Other people's clients behind one face, for tests that cross them.

Each module has ``write(servers, topic, rows, codec)``, which appends rows to partition 0, and
``read(servers, topic, count)``, which reads them back (kcat: ``printed``).
:mod:`~foreign_clients.rows` makes rows and looks at what is stored, :mod:`~foreign_clients.group`
tells the story of a group whose members come and go.
"""
