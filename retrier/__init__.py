"""Retrier: the service beside a message broker that owns every message that failed."""

__version__ = "0.1.0"
