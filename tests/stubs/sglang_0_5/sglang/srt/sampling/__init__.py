"""Stands in for a package of sglang."""
