"""Redis as a transport, over Kombu: the queues are those that Celery and Kombu programs use."""

from retrier.transport.redis.transport import RedisTransport, make_transport

__all__ = ["RedisTransport", "make_transport"]
