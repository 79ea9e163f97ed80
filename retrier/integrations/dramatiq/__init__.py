"""Gives the failed tasks of Dramatiq to Retrier, and confirms its retries; see docs/dramatiq.md."""

from retrier.integrations.dramatiq.middleware import RetrierMiddleware

__all__ = ["RetrierMiddleware"]
