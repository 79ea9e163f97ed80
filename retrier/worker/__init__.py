"""A consumer that does everything right in ten lines; see docs/worker.md.

Importing it loads neither the store nor the API, and a client library only once a worker runs.
"""

from retrier.worker.breaker import Breaker
from retrier.worker.handlers import Message
from retrier.worker.log import JsonLines
from retrier.worker.outcomes import Failed, InvalidMessage, Transient
from retrier.worker.worker import Worker

__all__ = ["Breaker", "Failed", "InvalidMessage", "JsonLines", "Message", "Transient", "Worker"]
