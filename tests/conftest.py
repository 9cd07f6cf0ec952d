"""What holds for all tests."""

import os

from hypothesis import settings

# A loaded machine is slow now and then, which says nothing about the code. Where the same change
# is judged again and again (CI), the same examples are tried, so that it is judged alike.
settings.register_profile("default", deadline=None)
settings.register_profile("ci", deadline=None, derandomize=True)
settings.load_profile("ci" if os.environ.get("CI") else "default")
