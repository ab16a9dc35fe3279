"""What holds for every test."""

import signal

from hypothesis import settings

# Two cores shared by everything: how long an example takes says nothing about the code.
settings.register_profile("scuba", deadline=None)
settings.load_profile("scuba")

# A shell starts what runs in its background deaf to Ctrl-C, and children inherit that.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
