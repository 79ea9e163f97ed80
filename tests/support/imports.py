"""What people do with failed imports, over a broker and settings that a test chooses."""

from collections.abc import Mapping
from functools import partial

from retrier.events.event import Emit, ignore
from retrier.imports import FailedImports
from retrier.ingestion.parsing import QueueMapping, read_import
from retrier.store.engine.database import Database
from retrier.transport.seam import Transport
from retrier.transport.sender import BrokerSender
from tests.support.bench import STAGING
from tests.support.factories import ERROR_QUEUE
from tests.support.frozen_clock import FrozenClock
from tests.support.scripted_transport import ScriptedTransport

OWN_QUEUES = frozenset({ERROR_QUEUE, STAGING})


def make_imports(
    db: Database,
    transport: Transport | None = None,
    mappings: Mapping[str, QueueMapping] | None = None,
    *,
    clock: FrozenClock | None = None,
    emit: Emit = ignore,
    instance: str = "test",
) -> FailedImports:
    """Return what the gateway has for failed imports."""
    transport = transport or ScriptedTransport()
    return FailedImports(
        db=db,
        emit=emit,
        own_queues=OWN_QUEUES,
        read=partial(
            read_import, codec=transport.codec, mappings={} if mappings is None else mappings
        ),
        sender=BrokerSender(transport, clock or FrozenClock()),
        instance=instance,
    )
