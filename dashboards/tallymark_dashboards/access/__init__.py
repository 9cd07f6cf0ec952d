"""Users and what they may do: roles, and the proof that a form is ours.

Read ``user`` first. No page decides about rights itself: it asks the :class:`~.user.User`.
"""
