"""Stands in for the compiled module `bindings`."""
