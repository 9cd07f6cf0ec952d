"""What a mirror reports of what it copied.

Read :mod:`.mirror_report`.
"""
