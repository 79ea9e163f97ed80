"""A queue of the staging queue's name that is not as ours: whatever it says, it is left alone."""

from typing import Any, cast

import pytest

from retrier.errors import QueueSilent, StagingQueueUnusable
from retrier.transport.rabbitmq.connection import BrokerConnection, ChannelLost
from retrier.transport.rabbitmq.queues import PRECONDITION_FAILED, RabbitMQQueues

QUEUE = "retrier.staging"
REFUSED = ChannelLost("refused", PRECONDITION_FAILED, "inequivalent arg 'x-max-length'")
SILENT = QueueSilent(QUEUE, "nothing came for 10 s")


class Line:
    """A connection on which every question ends in the next of these errors."""

    version = (4, 0)

    def __init__(self, *errors: Exception | None) -> None:
        self.errors = list(errors)

    def is_fit(self) -> bool:
        return True

    def ask(self, *_question: object) -> None:
        if error := self.errors.pop(0):
            raise error


def queues(*errors: Exception | None) -> RabbitMQQueues:
    line: Any = Line(*errors)
    return RabbitMQQueues(lambda: cast("BrokerConnection", line), "quorum")


def test_silence_of_one_that_is_not_as_ours_is_no_reason_to_delete_it() -> None:
    looked_at = queues(REFUSED, SILENT, REFUSED)

    with pytest.raises(StagingQueueUnusable, match="does not answer"):
        looked_at.declare_staging_queue(QUEUE)


def test_silence_of_one_that_an_older_broker_has_of_us_is_silence() -> None:
    looked_at = queues(REFUSED, SILENT, None)

    with pytest.raises(QueueSilent):
        looked_at.declare_staging_queue(QUEUE)
