"""Stands in for tensorrt_llm 0.12.0 (v0.12.0, v0.12.0-jetson); see bindings/executor.py."""

__version__ = "0.12.0"
