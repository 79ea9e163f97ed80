"""RabbitMQ: raw messages over py-amqp channels that Kombu dials."""

from retrier.transport.rabbitmq.transport import RabbitMQTransport

__all__ = ["RabbitMQTransport"]
