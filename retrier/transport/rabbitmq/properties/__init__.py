"""How the properties of AMQP messages are read and edited, as bytes."""
