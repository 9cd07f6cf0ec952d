"""What all commands share, those of the audit and of the Spark jobs too: output, progress, targets,
confirmation.

Read :mod:`.output` and :mod:`.target` first.
"""
