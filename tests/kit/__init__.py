"""Helpers for the tests: readers, fakes and clocks that more than one of them needs."""
