"""What a delivery turns out to be, as the kind a test expects."""

from retrier.domain.failed_imports import UNFORESEEN
from retrier.domain.failed_message import FailedImport, Failure, Received
from retrier.domain.wire import Delivery
from retrier.ingestion.parsing import QueueMapping, parse
from retrier.transport.rabbitmq.properties import AmqpPropertyCodec
from tests.support.raw_messages import RECEIVED_AT

CODEC = AmqpPropertyCodec()
PLAIN = QueueMapping(queue="error")
GUID = "d98c1dd4-008f-04b2-e980-0998ecf8427e"


def parsed(arrived: Delivery, mapping: QueueMapping = PLAIN) -> Received:
    """Parse a delivery."""
    return parse(arrived, CODEC, mapping, RECEIVED_AT)


def failure(arrived: Delivery, mapping: QueueMapping = PLAIN) -> Failure:
    """Parse a delivery that is a failure."""
    found = parsed(arrived, mapping)
    assert isinstance(found, Failure), found
    return found


def failed_import(arrived: Delivery, mapping: QueueMapping = PLAIN) -> FailedImport:
    """Parse a delivery that cannot be understood, for a reason that was foreseen."""
    found = parsed(arrived, mapping)
    assert isinstance(found, FailedImport), found
    assert UNFORESEEN not in found.reason
    return found
