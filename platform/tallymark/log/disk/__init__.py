"""The disk as a port, and the files that exist once in a data directory.

Read :mod:`.files` (the port), :mod:`.health` (what a failed disk means), :mod:`.partition_folder`
(names), :mod:`.data_dir`; :mod:`.checkpoint` and :mod:`.kept_offsets` are small files of a
directory, :mod:`.bounded_files` bounds the open descriptors.
"""
