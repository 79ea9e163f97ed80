"""A transport in memory that does what its script says: fails on cue, breaks, comes back.

    transport = ScriptedTransport()
    transport.broker.put("error", raw, b"body")                # what lies in a queue
    transport.cue(Refused("no"), when=to_queue("shop"))        # the next one to shop is refused
    transport.cue(Unknown("reset"), stored=True)               # the broker has it; nobody knows
    transport.fail("consumer.receive", BrokerUnavailable(""))  # the next call of that name raises
    transport.on_idle = clock.advance                          # an empty receive passes the time
    transport.drop_connections()                               # unacknowledged messages go back
    transport.stand_still()                                    # others may have what is in hand
    transport.go_down(); transport.come_up()
    transport.waits = 5                                        # a publish waits that often

Calls are noted in `calls` by name before they act ("publisher.publish"); `before_call` and
`after_call` see the same names and may raise, which is how a test kills a process between two
calls (then `drop_connections`, as the broker would). What publishing stored is in `published`,
what was acknowledged in `acked`. A publisher with a probe puts it into its queue for each new
connection, unless `probes` is off.
"""

from collections.abc import Callable
from typing import TypeVar

from retrier.domain.wire import Outgoing, PropertyCodec
from retrier.transport.capabilities import Capabilities
from retrier.transport.rabbitmq.properties import AmqpPropertyCodec
from retrier.transport.seam import TrialReport
from tests.support.script import Breakable, Script
from tests.support.scripted_connections import (
    ScriptedConsumer,
    ScriptedPublisher,
    ScriptedQueues,
)

C = TypeVar("C", bound=Breakable)


class ScriptedTransport(Script):
    """The seam's Transport over queues in memory, with a script."""

    def __init__(self, *, codec: PropertyCodec | None = None, user: str | None = "guest") -> None:
        super().__init__()
        self.capabilities = Capabilities(
            broker="Embedded",  # what the settings of these tests say
            ordered=True,
            confirms=True,
            returns=True,
            existence=True,
            single_consumer=True,
            redelivers=True,
            exact=True,
        )
        self.codec: PropertyCodec = codec or AmqpPropertyCodec()
        self.user = user
        self.place = "in memory"

    def publisher(self, probe: Outgoing | None = None) -> ScriptedPublisher:
        """Connect a publisher (seam)."""
        return self._connect("publisher", lambda: ScriptedPublisher(self, probe))

    def consumer(self, queue: str, prefetch: int) -> ScriptedConsumer:
        """Connect a consumer (seam)."""
        return self._connect("consumer", lambda: ScriptedConsumer(self, queue, prefetch))

    def queues(self) -> ScriptedQueues:
        """Connect to look at queues (seam)."""
        return self._connect("queues", lambda: ScriptedQueues(self))

    def try_out(self, _staging_queue: str) -> TrialReport:
        """Find that all is well (seam)."""
        return TrialReport()

    def _connect(self, kind: str, make: Callable[[], C]) -> C:
        self.enter(f"transport.{kind}")
        connection = make()
        self.connections.append(connection)
        self.after_call(f"transport.{kind}")
        return connection
