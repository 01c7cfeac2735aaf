"""Stands in for tensorrt_llm 1.2.1; see llmapi/__init__.py."""

__version__ = "1.2.1"
