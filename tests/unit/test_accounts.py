"""Which account of a failure holds: a consumer's headers, or what the broker wrote later."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from retrier.domain.dialects import by_name, recognise, strips
from retrier.domain.dialects.accounts import SAME_ACT, read_failure, read_stored
from retrier.domain.dialects.dialect import FoundOn, Unintelligible
from retrier.domain.failed_message import FailureDetails
from retrier.domain.failure_texts import derive
from retrier.transport.rabbitmq.properties import AmqpPropertyCodec
from tests.support.dialect_headers import properties
from tests.support.raw_messages import raw_properties

TOLD = datetime(2026, 5, 4, 12, tzinfo=UTC)
EARLIER, SOON, LATER = TOLD - SAME_ACT, TOLD + timedelta(seconds=2), TOLD + timedelta(hours=1)
OWN = frozenset({"error", "dead"})
VERDICTS = ("rejected", "delivery_limit")
OTHERS = ("maxlen", "expired", "unheard of", None)

OURS = "Retrier.FailedQueue"
OURS_AT = "Retrier.TimeOfFailure"


def headers(dialect: str, told: datetime | None) -> dict[str, object]:
    """Return what a consumer of `orders` wrote."""
    if dialect == "retrier":
        said: dict[str, object] = {OURS: "orders", "Retrier.Exception.Type": "Timeout"}
        return said if told is None else {**said, OURS_AT: told.isoformat()}
    said = {
        "NServiceBus.FailedQ": "orders@host-1",
        "NServiceBus.ExceptionInfo.ExceptionType": "Timeout",
        "NServiceBus.MessageId": "1",
        "NServiceBus.ProcessingEndpoint": "orders",
    }
    written = None if told is None else f"{told:%Y-%m-%d %H:%M:%S:%f} Z"
    return said if written is None else {**said, "NServiceBus.TimeOfFailure": written}


def died(*each: tuple[Any, Any, datetime | None]) -> dict[str, object]:
    """Return deaths, the newest first: queue, reason and time of each."""
    return {"x-death": [{"queue": q, "reason": r, "count": 1, "time": t} for q, r, t in each]}


def understood(said: dict[str, object], **how: Any) -> FailureDetails:
    found = properties(said)
    dialect = recognise(found)
    assert dialect is not None
    details = read_failure(dialect, found, otherwise=None, own_queues=OWN, **how)
    assert isinstance(details, FailureDetails)
    return details


HEADERS, BROKER = "the headers", "the broker"
TABLE = [
    # when the headers say it failed, where the broker says it died, why, when: whose account holds
    *[(TOLD, "billing", verdict, LATER, BROKER) for verdict in VERDICTS],
    *[(TOLD, "billing", verdict, SOON, BROKER) for verdict in VERDICTS],
    *[(TOLD, "billing", verdict, TOLD, HEADERS) for verdict in VERDICTS],
    *[(TOLD, "billing", verdict, EARLIER, HEADERS) for verdict in VERDICTS],
    *[(TOLD, "billing", verdict, None, HEADERS) for verdict in VERDICTS],
    *[(None, "billing", verdict, LATER, BROKER) for verdict in VERDICTS],
    *[(None, "billing", verdict, None, BROKER) for verdict in VERDICTS],
    # The same queue: whoever writes headers and then has the broker park the message does it at once.
    *[(TOLD, "orders", verdict, LATER, BROKER) for verdict in VERDICTS],
    *[(TOLD, "orders", verdict, SOON, HEADERS) for verdict in VERDICTS],
    *[(TOLD, "orders", verdict, EARLIER, HEADERS) for verdict in VERDICTS],
    *[(TOLD, "orders", verdict, None, HEADERS) for verdict in VERDICTS],
    *[(None, "orders", verdict, LATER, HEADERS) for verdict in VERDICTS],
    # Where it only lay there, nothing failed.
    *[(TOLD, queue, why, LATER, HEADERS) for queue in ("billing", "orders") for why in OTHERS],
    *[(None, queue, why, LATER, HEADERS) for queue in ("billing", "orders") for why in OTHERS],
    # A queue that Retrier itself empties.
    *[(TOLD, "dead", why, LATER, HEADERS) for why in (*VERDICTS, *OTHERS)],
    *[(None, "dead", why, LATER, HEADERS) for why in (*VERDICTS, *OTHERS)],
]


@pytest.mark.parametrize("dialect", ["retrier", "nservicebus"])
@pytest.mark.parametrize(("told", "queue", "why", "at", "whose"), TABLE, ids=str)
def test_the_newest_verdict_says_where_it_failed(
    dialect: str,
    told: datetime | None,
    queue: str,
    why: str | None,
    at: datetime | None,
    whose: str,
) -> None:
    found = understood({**headers(dialect, told), **died((queue, why, at))})

    if whose == HEADERS:
        assert (found.destination, found.exception_type) == ("orders", "Timeout")
        assert found.time_of_failure == told
    else:
        assert (found.queue, found.destination) == (queue, queue)
        assert (found.exception_type, found.failure_reason) == (None, why)
        assert found.time_of_failure == at


@pytest.mark.parametrize("dialect", ["retrier", "nservicebus"])
@pytest.mark.parametrize(("told", "queue", "why", "at", "whose"), TABLE, ids=str)
def test_what_is_shown_later_is_the_account_that_held(
    dialect: str,
    told: datetime | None,
    queue: str,
    why: str | None,
    at: datetime | None,
    whose: str,
) -> None:
    found = properties({**headers(dialect, told), **died((queue, why, at))})
    known = by_name(dialect)
    assert known is not None
    first = read_failure(known, found, otherwise=None, own_queues=OWN)
    assert isinstance(first, FailureDetails), whose

    assert read_stored(known, found, queue=first.queue) == first


@pytest.mark.parametrize(
    ("newest_first", "failed_on"),
    [
        ([("dead", "rejected"), ("orders", "maxlen")], "orders"),
        ([("dead", "rejected"), ("wait", "expired")], "wait"),
        ([("dead", "maxlen"), ("error", "rejected"), ("orders", "rejected")], "orders"),
        ([("dead", "rejected")], "dead"),
        ([("dead", "rejected"), (None, "rejected")], "dead"),
        ([("dead", "rejected"), ("", "rejected")], "dead"),
        ([("dead", "expired"), ("error", "rejected")], "error"),
    ],
    ids=str,
)
@pytest.mark.parametrize("named", [{}, {"task": "shop.charge", "id": "1"}], ids=["plain", "celery"])
def test_a_death_where_retrier_takes_messages_never_counts_where_another_names_a_queue(
    newest_first: list[tuple[str | None, str]], failed_on: str, named: dict[str, object]
) -> None:
    deaths = died(*[(queue, why, None) for queue, why in newest_first])

    assert understood({**named, **deaths}).queue == failed_on


def test_a_time_of_the_far_future_outranks_no_death() -> None:
    said = {
        **headers("retrier", TOLD + timedelta(days=900)),
        **died(("billing", "rejected", LATER)),
    }

    assert understood(said, latest=LATER + timedelta(days=1)).queue == "billing"
    assert understood(said).queue == "orders"


def test_the_whole_name_in_an_address_is_a_name_that_the_headers_give() -> None:
    said = {**headers("nservicebus", None), **died(("orders@host-1", "rejected", LATER))}

    assert understood(said).exception_type == "Timeout"


def test_a_message_whose_accounts_disagree_says_so_and_goes_back_without_the_old_headers() -> None:
    said = {**headers("retrier", TOLD), **died(("billing", "rejected", LATER))}

    shown = derive(
        AmqpPropertyCodec(), raw_properties(said), dialect="retrier", otherwise="billing"
    )

    assert shown.exception_message == (
        "rejected by a consumer on billing; older headers (Retrier.FailedQueue) name the queue orders"
    )
    assert strips("retrier", OURS)


def test_the_endpoint_that_failed_before_is_not_that_of_the_newest_failure() -> None:
    said = {**headers("nservicebus", TOLD), **died(("billing", "rejected", LATER))}

    assert understood(said).endpoint is None


def test_without_any_account_nothing_is_made_up() -> None:
    known = by_name("retrier")
    assert known is not None

    assert isinstance(read_failure(known, properties(), otherwise=None), Unintelligible)


@pytest.mark.parametrize("is_there", [True, False])
def test_what_is_shown_later_has_the_whole_name_if_that_was_found(*, is_there: bool) -> None:
    known = by_name("nservicebus")
    assert known is not None
    found = properties({"NServiceBus.FailedQ": "billing@eu", "NServiceBus.MessageId": "1"})
    first = read_failure(known, found, otherwise=None, found_on=FoundOn(exists=lambda _: is_there))
    assert isinstance(first, FailureDetails)

    assert read_stored(known, found, queue=first.queue) == first
