"""sameweights: why the same model answers differently on another machine, item by item."""

__version__ = "0.1.0"
