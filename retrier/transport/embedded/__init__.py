"""The embedded broker: queues in one SQLite file, for every Kombu program on this machine.

Importing this registers it with Kombu: `kombu.Connection("embedded:///./retrier-data/broker.db")`.
"""

from kombu.transport import TRANSPORT_ALIASES

from retrier.transport.embedded.address import SCHEME
from retrier.transport.embedded.transport import EmbeddedTransport

__all__ = ["EmbeddedTransport"]

TRANSPORT_ALIASES[SCHEME] = "retrier.transport.embedded.kombu_transport:Transport"
