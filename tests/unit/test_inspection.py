"""Whether an error queue may be ingested, by what is seen of it."""

import pytest

from retrier.ingestion.ingestor import (
    Inspection,
    Missing,
    Unusable,
    Usable,
    describe_delivery_limit,
    inspect,
)
from retrier.ingestion.parsing import QueueMapping
from retrier.transport.seam import DeliveryLimit
from tests.support.scripted_transport import ScriptedTransport

QUEUE = "orders"


@pytest.fixture
def transport() -> ScriptedTransport:
    transport = ScriptedTransport()
    transport.broker.declare(QUEUE)
    return transport


def look(
    transport: ScriptedTransport, *, allowed: bool = False, judging: bool = True
) -> Inspection:
    mapping = QueueMapping(queue=QUEUE, take_from_work_queue=allowed)
    return inspect(transport.queues(), mapping, judging=judging)


def test_a_missing_queue_is_named_with_what_to_do(transport: ScriptedTransport) -> None:
    transport.broker.delete(QUEUE)

    assert look(transport) == Missing(
        reason="the error queue orders does not exist: declare it, or set ingestion.declare_missing"
    )


def test_both_signs_of_a_work_queue_are_a_refusal(transport: ScriptedTransport) -> None:
    transport.consumers[QUEUE], transport.dead_letters[QUEUE] = 3, True

    found = look(transport)

    assert isinstance(found, Unusable)
    assert found.reason.startswith(
        "orders has a dead-letter exchange and 3 consumers: it looks like a work queue. "
        "Retrier would take its messages."
    )


@pytest.mark.parametrize("dead_letters", [False, None])
def test_consumers_alone_are_a_doubt(
    transport: ScriptedTransport, *, dead_letters: bool | None
) -> None:
    transport.consumers[QUEUE], transport.dead_letters[QUEUE] = 1, dead_letters

    found = look(transport)

    assert isinstance(found, Usable)
    assert "orders has 1 consumer already" in str(found.doubt)


def test_a_dead_letter_exchange_alone_is_a_doubt(transport: ScriptedTransport) -> None:
    transport.dead_letters[QUEUE] = True

    found = look(transport)

    assert isinstance(found, Usable)
    assert "a dead-letter exchange of its own" in str(found.doubt)


@pytest.mark.parametrize("dead_letters", [False, None])
def test_without_a_sign_there_is_no_doubt(
    transport: ScriptedTransport, *, dead_letters: bool | None
) -> None:
    transport.dead_letters[QUEUE] = dead_letters

    found = look(transport)

    assert isinstance(found, Usable)
    assert found.doubt is None


@pytest.mark.parametrize("how", [{"allowed": True}, {"judging": False}], ids=str)
def test_a_work_queue_that_is_allowed_or_was_consumed_before_is_taken_as_it_is(
    transport: ScriptedTransport, how: dict[str, bool]
) -> None:
    transport.consumers[QUEUE], transport.dead_letters[QUEUE] = 3, True

    found = look(transport, **how)

    assert isinstance(found, Usable)
    assert found.doubt is None
    assert "queues.dead_letters" not in transport.calls


class TestADeliveryLimit:
    def test_without_a_dead_letter_exchange_is_told_with_its_number(self) -> None:
        assert describe_delivery_limit(DeliveryLimit(most=5), dead_letters=False) == (
            "its delivery limit is 5, below the 20 that is usual: what comes back more than 5 times "
            "is dropped, because its arguments name no dead-letter exchange"
        )

    def test_with_a_dead_letter_exchange_drops_nothing(self) -> None:
        assert describe_delivery_limit(DeliveryLimit(most=19), dead_letters=True) == (
            "its delivery limit is 19, below the 20 that is usual: what comes back more than 19 "
            "times goes to its dead-letter exchange"
        )

    @pytest.mark.parametrize("most", [20, 100])
    def test_of_twenty_or_more_is_not_told_to_be_low(self, most: int) -> None:
        told = describe_delivery_limit(DeliveryLimit(most=most), dead_letters=False)

        assert told.startswith(f"its delivery limit is {most}: ")

    def test_below_zero_is_as_zero(self) -> None:
        told = describe_delivery_limit(DeliveryLimit(most=-1), dead_letters=None)

        assert told.endswith("more than 0 times is dropped, unless it has a dead-letter exchange")

    def test_whose_number_is_not_shown_has_none(self) -> None:
        told = describe_delivery_limit(DeliveryLimit(most=None), dead_letters=False)

        assert told.startswith("it may have a delivery limit: what comes back too often is dropped")
