"""RabbitMQ: raw messages over py-amqp channels that Kombu dials."""

from retrier.transport.rabbitmq.transport import RabbitMQTransport, make_transport

__all__ = ["RabbitMQTransport", "make_transport"]
