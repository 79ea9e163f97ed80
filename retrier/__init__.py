"""Retrier: takes failed messages off a broker's error queues, keeps them, and sends them back."""

__version__ = "0.1.0"
