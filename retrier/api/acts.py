"""Answers to requests that archive, unarchive or resolve messages."""

from fastapi import Response

from retrier.api.answers import accepted
from retrier.api.problems import problem
from retrier.api.request_context import RequestContext
from retrier.api.views.archives import outcome
from retrier.domain.archive_operation import (
    NOTHING_TO_DO,
    Act,
    ArchiveOperation,
    ArchiveRequest,
    Refusal,
)
from retrier.domain.selection import Selection


def act_on_one(context: RequestContext, act: Act, unique_id: str) -> Response:
    """Answer 202, also if the act was done before; 404 or 409 with the reason if it is refused.

    Raises KeyReused, DatabaseUnavailable.
    """
    words = f"{act} of message {unique_id}"
    request = context.archive_request(act, Selection(ids=(unique_id,)), words)
    found = context.gateway.archives.ask(request).operation
    for reason in map(Refusal, found.skipped_because):
        if reason is Refusal.UNKNOWN:
            return problem(404, f"No failed message has the id {unique_id[:100]}.")
        if (act, reason) not in NOTHING_TO_DO:
            return problem(409, f"The message cannot be changed now: {reason}.")
    return answer_with(found)


def act_on_ids(context: RequestContext, act: Act, unique_ids: tuple[str, ...]) -> Response:
    """Answer 202 with how many were changed and why the others were not, or that it goes on.

    Raises KeyReused, DatabaseUnavailable.
    """
    words = f"{act} of {len(unique_ids)} messages"
    return answer_to(context, context.archive_request(act, Selection(ids=unique_ids), words))


def act_on(context: RequestContext, act: Act, selection: Selection, words: str) -> Response:
    """Do the same for a selection; `words` say what that is. Raises as `act_on_ids`."""
    request = context.archive_request(act, selection, f"{act} of {words}")
    return answer_to(context, request)


def answer_to(context: RequestContext, request: ArchiveRequest) -> Response:
    """Ask the gateway; answer 202 with the operation. Raises KeyReused, DatabaseUnavailable."""
    return answer_with(context.gateway.archives.ask(request).operation)


def answer_with(found: ArchiveOperation) -> Response:
    """Answer 202 with an operation that was asked for."""
    return accepted(outcome(found), f"/api/archive_operations/{found.operation_id}")
