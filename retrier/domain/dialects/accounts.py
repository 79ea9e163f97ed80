"""Which account of a failure holds: the consumer's headers, or what the broker wrote (decision 0058)."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import datetime, timedelta

from retrier.domain.dialects.dialect import NOWHERE, Dialect, FoundOn, Unintelligible, count
from retrier.domain.dialects.nservicebus import FAILED_QUEUE, NServiceBusDialect
from retrier.domain.dialects.rabbitmq import DEATHS, VERDICTS, RabbitMqDialect
from retrier.domain.dialects.retrier import RetrierDialect
from retrier.domain.failed_message import FailureDetails
from retrier.domain.headers import WORKER_CRASHES, WORKER_REJECTED
from retrier.domain.text import clean
from retrier.domain.wire import Properties

SAME_ACT = timedelta(minutes=1)
"""A consumer that writes headers and lets the broker park the message does both in this time."""

BY_CONSUMERS: tuple[Dialect, ...] = (NServiceBusDialect(), RetrierDialect())
"""Written by the consumer that gave the message up. They are tried first: they name the error."""

_BROKER = RabbitMqDialect()
_MACHINE = "@"


def read_failure(
    dialect: Dialect,
    properties: Properties,
    *,
    otherwise: str | None,
    body: bytes = b"",
    own_queues: frozenset[str] = frozenset(),
    latest: datetime | None = None,
    found_on: FoundOn = NOWHERE,
) -> FailureDetails | Unintelligible:
    """Read the newest account of a failure; a time after `latest` is none.

    A death on one of `own_queues`, which Retrier itself empties, says nothing where another death
    names a queue, and nothing against headers: the message failed before it came there.
    `found_on` is the error queue that it was found on. It is asked whether a queue with `@` in its
    name exists: if it does, that is no machine.
    """
    properties = _without_deaths_on(own_queues, properties)
    details = dialect.read(properties, otherwise=otherwise, body=body, found_on=found_on)
    if isinstance(details, Unintelligible):
        return details
    details = _with_whole_name(dialect, properties, details, found_on.exists)
    death = _death_beside(dialect, properties)
    if death is None or death.queue in own_queues:
        return _filled(dialect, details, properties)
    if not _is_newer(_believed(death, latest), _believed(details, latest), properties):
        return details
    return _overruled(dialect, details, death)


def read_stored(
    dialect: Dialect, properties: Properties, *, queue: str | None
) -> FailureDetails | Unintelligible:
    """Read a stored failure again; `queue` is where it failed, by the account that held then."""
    focused = _only_deaths_on(queue, properties)
    details = dialect.read(focused, otherwise=queue)
    if isinstance(details, Unintelligible):
        return details
    details = _with_whole_name(dialect, focused, details, lambda whole: whole == queue)
    death = _death_beside(dialect, focused)
    if death is None or death.queue != queue:
        return details
    held = queue not in _names(details, focused) or _is_newer(death, details, focused)
    if not held:
        return details
    return _overruled(dialect, details, death)


def read_worker(properties: Properties) -> tuple[int, str | None]:
    """Return how often a worker says that it crashed over the message, and why it gave it up.

    Whatever the dialect is. A count that is none, or too large, counts as 0.
    """
    rejected = properties.text(WORKER_REJECTED)
    crashes = count(properties.headers.get(WORKER_CRASHES)) or 0
    return crashes, clean(rejected) if rejected else None


def _with_whole_name(
    dialect: Dialect,
    properties: Properties,
    details: FailureDetails,
    exists: Callable[[str], bool],
) -> FailureDetails:
    """Name the queue as the header does, with what may be a machine, if there is such a queue.

    The endpoint stays as it was: the id that ServiceControl gives the message is computed from it.
    """
    whole = properties.text(FAILED_QUEUE) if dialect.mark == FAILED_QUEUE else None
    if whole is None or _MACHINE not in whole or not exists(whole):
        return details
    # What was taken for a machine is part of the name.
    is_none = details.host == whole.partition(_MACHINE)[2]
    host = None if is_none else details.host
    return replace(details, queue=whole, destination=whole, host=host)


def _filled(dialect: Dialect, details: FailureDetails, properties: Properties) -> FailureDetails:
    """Add time and count of a rejection on the same queue, where a library names neither.

    A death elsewhere says nothing of it: on a wait queue it is a try of the library's own.
    """
    if dialect in BY_CONSUMERS or DEATHS not in properties.headers:
        return details
    death = _BROKER.read(_only_deaths_on(details.queue, properties))
    if isinstance(death, Unintelligible) or death.queue != details.queue:
        return details
    if death.failure_reason not in VERDICTS:
        return details
    return replace(
        details,
        time_of_failure=details.time_of_failure or death.time_of_failure,
        attempts_reported=death.attempts_reported
        if details.attempts_reported is None
        else details.attempts_reported,
    )


def _death_beside(dialect: Dialect, properties: Properties) -> FailureDetails | None:
    """Return what the broker says beside a consumer's headers; None if one of both is missing."""
    headers = properties.headers
    if DEATHS not in headers or dialect not in BY_CONSUMERS or not properties.text(dialect.mark):
        return None
    death = _BROKER.read(properties)
    return death if isinstance(death, FailureDetails) else None


def _is_newer(death: FailureDetails, told: FailureDetails, properties: Properties) -> bool:
    """Say whether a consumer rejected the message after another one had written the headers.

    An expiry or a length limit is no verdict: the message only lay there. Without times the queue
    says it: one that the headers do not name.
    """
    if death.failure_reason not in VERDICTS:
        return False
    is_named = death.queue in _names(told, properties)
    if told.time_of_failure is None:
        return not is_named
    if death.time_of_failure is None:
        return False
    return death.time_of_failure > told.time_of_failure + (SAME_ACT if is_named else timedelta())


def _believed(details: FailureDetails, latest: datetime | None) -> FailureDetails:
    time = details.time_of_failure
    ahead = latest is not None and time is not None and time > latest
    return replace(details, time_of_failure=None) if ahead else details


def _names(told: FailureDetails, properties: Properties) -> tuple[str | None, ...]:
    return (told.queue, *(properties.text(each.mark) for each in BY_CONSUMERS))


def _overruled(dialect: Dialect, told: FailureDetails, death: FailureDetails) -> FailureDetails:
    """Return the death, and of the headers what describes the message and not the failure."""
    older = f"older headers ({dialect.mark}) name the queue {told.queue}"
    return replace(
        death,
        message_type=told.message_type,
        exception_message=f"{death.exception_message}; {older}",
        time_sent=told.time_sent,
        completed_steps=told.completed_steps,
        stream_id=told.stream_id,
    )


def _without_deaths_on(queues: frozenset[str], properties: Properties) -> Properties:
    deaths = properties.headers.get(DEATHS)
    if not queues or not isinstance(deaths, list):
        return properties
    others = [each for each in deaths if _queue_of(each) not in queues]
    names_one = any(isinstance(_queue_of(each), str) and _queue_of(each) for each in others)
    filtered = names_one and len(others) < len(deaths)
    return _with_deaths(properties, others) if filtered else properties


def _only_deaths_on(queue: str | None, properties: Properties) -> Properties:
    deaths = properties.headers.get(DEATHS)
    if queue is None or not isinstance(deaths, list):
        return properties
    those = [each for each in deaths if _queue_of(each) == queue]
    return _with_deaths(properties, those) if 0 < len(those) < len(deaths) else properties


def _with_deaths(properties: Properties, deaths: list[object]) -> Properties:
    headers: Mapping[str, object] = {**properties.headers, DEATHS: deaths}
    return replace(properties, headers=headers)


def _queue_of(death: object) -> object:
    return death.get("queue") if isinstance(death, dict) else None
