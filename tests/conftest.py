"""Random tests draw the same examples each time; `make soak` draws anew."""

from hypothesis import settings

settings.register_profile("same", deadline=None, derandomize=True)
settings.register_profile("anew", deadline=None, print_blob=True)
settings.load_profile("same")
