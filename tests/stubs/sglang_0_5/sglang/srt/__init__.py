"""Stands in for the package of sglang's runtime."""
