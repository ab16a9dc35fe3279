"""Coding agents made to speak the words of `actors.harness`: one package for each kind."""
