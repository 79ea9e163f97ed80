"""A failed import knows whether it was redelivered: the store must not keep it twice."""

from datetime import UTC, datetime

import pytest

from retrier.domain.failed_message import FailedImport
from retrier.domain.wire import Delivery
from retrier.ingestion.parsing import QueueMapping, parse
from retrier.transport.rabbitmq.properties import AmqpPropertyCodec


@pytest.mark.parametrize("redelivered", [True, False])
def test_a_failed_import_tells_whether_it_came_again(*, redelivered: bool) -> None:
    codec = AmqpPropertyCodec()
    delivery = Delivery(tag=1, queue="error", raw=codec.empty, body=b"", redelivered=redelivered)

    found = parse(delivery, codec, QueueMapping(queue="error"), datetime(2026, 5, 4, tzinfo=UTC))

    assert isinstance(found, FailedImport)
    assert found.redelivered is redelivered
