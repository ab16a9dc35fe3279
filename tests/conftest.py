"""What holds for every test."""

from hypothesis import settings

# Two cores shared by everything: how long an example takes says nothing about the code.
settings.register_profile("scuba", deadline=None)
settings.load_profile("scuba")
