"""The scripted transport, which tells of everything that a broker was handed."""

from collections.abc import Callable

from retrier.domain import headers
from retrier.domain.wire import ChannelClosed, Confirmed, Outgoing, Unknown
from tests.properties.model.sends import STAGING
from tests.support.script import Cue
from tests.support.scripted_transport import ScriptedTransport


class WatchedTransport(ScriptedTransport):
    """Notes which retries were not taken, and tells of each window that breaks."""

    def __init__(self, refused: set[str], on_break: Callable[[], None]) -> None:
        super().__init__()
        self._refused = refused
        self._on_break = on_break

    def take_cue(self, message: Outgoing) -> Cue | None:
        cue = super().take_cue(message)
        outcome = cue.outcome if cue else Confirmed()
        missing = message.queue not in self.broker.queues
        if missing or not isinstance(outcome, Confirmed):
            self._refused.add(self.codec.read(message.raw).text(headers.RETRY_ID) or "")
        if isinstance(outcome, ChannelClosed | Unknown) and message.queue != STAGING:
            self._on_break()
        return cue
