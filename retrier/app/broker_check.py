"""The broker's part of `retrier check`: its nodes, and every queue that `run` uses."""

from collections.abc import Iterator, Sequence
from pathlib import Path

from retrier.app.check_result import CheckResult, check_folder
from retrier.app.composition import make_mapping
from retrier.app.parts import make_transport
from retrier.errors import AccessRefused, BrokerUnavailable, ConnectionLimit
from retrier.ingestion.ingestor import (
    Missing,
    Unusable,
    Usable,
    inspect,
    tell_delivery_limit,
)
from retrier.settings import ErrorQueue, Settings
from retrier.transport.seam import Queues, Transport

_NO_DESTINATION = (
    "warning: it does not exist, and retries to it fail. Make it, or name another destination"
)
_BESIDE_INGESTION = 6
"""Connections of the processor, of copies, of looks at queues and destinations, of failed imports."""
_UNSEEN = (
    "not tried: whether it has a dead-letter exchange, which is shown only to who may configure it"
)

_DECLARED = (
    "will be declared durable, without arguments; the broker refuses (406) a program that declares "
    "it with arguments: start that program first, and its queue is taken as it is"
)


def check_broker(settings: Settings) -> list[CheckResult]:
    """Try what `run` needs of the broker; nothing that is made stays."""
    transport = make_transport(settings)
    if settings.broker.is_embedded and not Path(transport.place).exists():
        return [check_folder("broker", Path(transport.place))]
    try:
        queues = transport.queues()
    except BrokerUnavailable as error:
        return [_word_broker(error, _say_needed(settings))]
    try:
        needed = _say_needed(settings)
        text = "; ".join([f"ok, {transport.place}", *needed, *_find_lost_nodes(settings)])
        return [
            CheckResult(name="broker", ok=True, text=text),
            *_check_queues(settings, queues),
            *_check_destinations(settings, queues),
            *_check_log_queue(settings, queues),
            *_check_notices(settings, queues),
            _check_staging(settings, transport),
        ]
    except BrokerUnavailable as error:
        return [_word_broker(error, _say_needed(settings))]
    finally:
        queues.close()


def _word_broker(error: BrokerUnavailable, needed: Sequence[str]) -> CheckResult:
    out_of_reach = not isinstance(error, AccessRefused)
    more = needed if isinstance(error, ConnectionLimit) else ()
    text = "; ".join([str(error), *more])
    return CheckResult(name="broker", ok=False, text=text, out_of_reach=out_of_reach)


def _say_needed(settings: Settings) -> list[str]:
    """Say how many connections a process with all roles may open, each with a channel."""
    if settings.broker.is_embedded:
        return []
    most = len(settings.ingestion.error_queues) + _BESIDE_INGESTION
    return [f"a process opens up to {most} connections with a channel each"]


def _find_lost_nodes(settings: Settings) -> list[str]:
    """Return why nodes cannot be reached, if there are several. One that answers is enough."""
    urls = settings.broker.url
    lost = []
    for url in urls if len(urls) > 1 else ():
        one = settings.broker.model_copy(update={"url": (url,)})
        try:
            make_transport(settings.model_copy(update={"broker": one})).queues().close()
        except BrokerUnavailable as error:
            lost.append(str(error))
    return lost


def _check_queues(settings: Settings, queues: Queues) -> list[CheckResult]:
    return [_check_queue(settings, queues, each) for each in settings.ingestion.error_queues]


def _check_queue(settings: Settings, queues: Queues, queue: ErrorQueue) -> CheckResult:
    name = f"error queue {queue.queue}"
    match inspect(queues, make_mapping(settings, queue)):
        case Missing() if settings.declares_missing:
            why_not = queues.why_not_declarable(queue.queue)
            made = "will be declared" if settings.broker.is_embedded else _DECLARED
            text = why_not or f"missing: {made}"
            return CheckResult(name=name, ok=why_not is None, text=text)
        case Missing(reason=reason) | Unusable(reason=reason):
            return CheckResult(name=name, ok=False, text=reason.removeprefix(f"the {name} "))
        case Usable() as usable:
            text = "; ".join(_describe(queues, queue.queue, usable))
            return CheckResult(name=name, ok=True, text=text)


def _describe(queues: Queues, queue: str, usable: Usable) -> Iterator[str]:
    yield f"ok, {_count_ready(usable.look.ready)}"
    limit = queues.delivery_limit(queue)
    if limit is not None:
        yield tell_delivery_limit(limit, dead_letters=queues.dead_letters(queue))
    if usable.doubt is not None:
        yield usable.doubt
    if usable.unseen:
        yield _UNSEEN


def _count_ready(number: int) -> str:
    return "1 message ready" if number == 1 else f"{number} messages ready"


def _check_log_queue(settings: Settings, queues: Queues) -> Iterator[CheckResult]:
    """Look whether the log queue exists: Retrier never declares it, and copies wait without it."""
    if settings.ingestion.forward_to is not None:
        yield _check_existing("log queue", settings.ingestion.forward_to, "copy", queues)


def _check_notices(settings: Settings, queues: Queues) -> Iterator[CheckResult]:
    """Look whether the queue for notices of dead messages exists: they wait without it."""
    policies = settings.policies
    if policies is not None and policies.notices is not None:
        yield _check_existing("queue for notices", policies.notices, "notice", queues)


def _check_existing(name: str, queue: str, what: str, queues: Queues) -> CheckResult:
    ready = queues.depth(queue)
    text = (
        f"does not exist: declare it, or no {what} can be sent"
        if ready is None
        else f"ok, {_count_ready(ready)}"
    )
    return CheckResult(name=f"{name} {queue}", ok=ready is not None, text=text)


def _check_staging(settings: Settings, transport: Transport) -> CheckResult:
    trial = transport.try_out(settings.staging_queue)
    tried = "; ".join(["ok", *(f"not tried: {each}" for each in trial.untried)])
    return CheckResult(
        name=f"staging queue {settings.staging_queue}",
        ok=not trial.problems,
        text="; ".join(trial.problems) or tried,
    )


def _check_destinations(settings: Settings, queues: Queues) -> Iterator[CheckResult]:
    """Look whether each destination of the settings exists; declare none.

    One that is missing is a warning: `run` takes failures all the same, and the retries to it are
    reverted. Raises BrokerUnavailable.
    """
    named = {each.destination for each in settings.ingestion.error_queues}
    for queue in sorted(each for each in named if each is not None):
        text = _NO_DESTINATION if queues.look(queue) is None else "ok"
        yield CheckResult(name=f"destination {queue}", ok=True, text=text)
