"""The embedded broker: queues in one SQLite file, for every Kombu program on this machine.

Importing this registers it with Kombu: `kombu.Connection("embedded:///./retrier-data/broker.db")`.
"""

from kombu.transport import TRANSPORT_ALIASES

from retrier.transport.embedded.transport import SCHEME, EmbeddedTransport, make_transport

__all__ = ["EmbeddedTransport", "make_transport"]

TRANSPORT_ALIASES[SCHEME] = "retrier.transport.embedded.kombu_transport:Transport"
