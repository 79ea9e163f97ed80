"""Retrier: takes failed messages off a broker's error queues, keeps them, and sends them back."""

__version__ = "1.0.0rc1"
