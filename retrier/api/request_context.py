"""The context of a request (who asks, with which key, for which messages) and answers to acts."""

from dataclasses import dataclass, replace
from datetime import datetime
from itertools import islice
from typing import Annotated, Any

from fastapi import Body, Depends, Header, HTTPException, Request, Response

from retrier.api.answers import Json, accepted
from retrier.api.parts import Parts
from retrier.domain.archive_operation import Act, ArchiveRequest
from retrier.domain.failed_message import FailedMessageStatus
from retrier.domain.recovery import Recovery
from retrier.domain.retry_operation import RetryRequest, RetryType
from retrier.domain.selection import Selection
from retrier.domain.text import clean
from retrier.gateway import AskedAgain, Gateway
from retrier.store.verbs.operations import CreatedOperation

LONGEST_NAME = 200
LONGEST_KEY = 255
NOBODY = "anonymous"


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestContext:
    """Who asks, under which idempotency key, and through which gateway."""

    gateway: Gateway
    requested_by: str
    idempotency_key: str | None

    def retry(self, retry_type: RetryType, selection: Selection, originator: str) -> Response:
        """Ask the gateway; answer 202 with the operation. Raises KeyReused, DatabaseUnavailable."""
        return self.ask(self.request(retry_type, selection, originator))

    def ask(self, request: RetryRequest) -> Response:
        """Ask the gateway; answer 202 with the operation. Raises KeyReused, DatabaseUnavailable."""
        return self.accepted(self.gateway.retry(request))

    def accepted(self, created: CreatedOperation) -> Response:
        """Answer 202 with an operation that was asked for."""
        return accepted(_asked(created), f"/api/operations/{created.operation_id}")

    def retry_again(
        self, originator: str, unique_ids: tuple[str, ...], selection: Selection | None = None
    ) -> Response:
        """Ask the gateway; answer 202 with operations. Raises KeyReused, DatabaseUnavailable."""
        named = Selection(ids=unique_ids)
        request = self.request(RetryType.MULTIPLE_MESSAGES, named, originator)
        again = self.gateway.retry_again(request, selection)
        first = again.operation_ids[:1]
        return accepted(asked_again(again), f"/api/operations/{first[0]}" if first else None)

    def archive_request(
        self, act: Act, selection: Selection, originator: str, why: str | None = None
    ) -> ArchiveRequest:
        """Return a request to archive, unarchive or resolve."""
        return ArchiveRequest(
            act=act,
            selection=selection,
            originator=originator,
            requested_by=self.requested_by,
            why=why,
            idempotency_key=self.idempotency_key,
        )

    def request(self, retry_type: RetryType, selection: Selection, originator: str) -> RetryRequest:
        """Return a request of who asks, under the idempotency key."""
        return RetryRequest(
            retry_type=retry_type,
            selection=selection,
            originator=originator,
            requested_by=self.requested_by,
            idempotency_key=self.idempotency_key,
        )


SHOWN_SKIPPED = 1000
"""So many skipped ids at most are shown in an answer; `skipped` counts them all."""


def _asked(created: CreatedOperation) -> Json:
    """Show an operation that was asked for, and which named messages it would skip as they are.

    `dead_left_out` counts the dead messages that it leaves out.
    """
    shown = islice(created.skipped.items(), SHOWN_SKIPPED)
    skipped = {
        "skipped": len(created.skipped),
        "skipped_messages": [{"id": key, "reason": why} for key, why in shown],
    }
    made = {"operation_id": created.operation_id, "total": created.total}
    dead = {"dead_left_out": created.dead_left_out}
    return made | (skipped if created.skipped else {}) | (dead if created.dead_left_out else {})


def pending_retries(
    queue: str | None = None,
    modified: tuple[datetime, datetime] | None = None,
    sent_before: datetime | None = None,
) -> Selection:
    """Return the messages of a queue and time whose retry was sent and has no outcome yet."""
    return Selection(
        queue=queue,
        statuses=frozenset({FailedMessageStatus.RETRY_ISSUED}),
        modified=modified,
        pending=True,
        sent_before=sent_before,
    )


def recovered_retries(recovery: Recovery, queue: str | None = None) -> Selection:
    """Return what was sent around the backup and has no outcome; nothing that was sent since."""
    pending = pending_retries(queue, sent_before=recovery.begun_at)
    return replace(pending, sent_since=recovery.sent_from)


def _context(
    request: Request,
    parts: Parts,
    x_retrier_user: Annotated[str, Header(description="the name to log")] = "",
    idempotency_key: Annotated[
        str, Header(description="makes repeating safe: the same key, the same operation")
    ] = "",
) -> RequestContext:
    if len(request.headers.getlist("Idempotency-Key")) > 1:
        # One of them would be dropped, and the request be done again under it.
        raise HTTPException(400, "Idempotency-Key stands twice in the request.")
    if len(idempotency_key) > LONGEST_KEY:
        raise HTTPException(400, f"Idempotency-Key has at most {LONGEST_KEY} characters.")
    address = request.client.host if request.client else "unknown address"
    return RequestContext(
        gateway=parts.gateway,
        requested_by=f"{_name(x_retrier_user)} ({address})",
        idempotency_key=idempotency_key or None,
    )


InContext = Annotated[RequestContext, Depends(_context)]


def _name(header: str) -> str:
    """Return who asks, in one printable line. Header bytes come as Latin-1, but most are UTF-8."""
    text = header.encode("latin-1", "replace").decode("utf-8", "replace")
    line = "".join(character if character.isprintable() else " " for character in text)
    return line.strip()[:LONGEST_NAME].strip() or NOBODY


MOST_IDS = 100_000
"""Ids that one request may name; for more, use a bulk route or several requests."""

_LONGEST_ID = 1000


def checked(ids: list[Any]) -> tuple[str, ...]:
    """Return the ids. Raises HTTPException if one is no text, empty, too long or not clean."""
    if not all(is_id(each) for each in ids):
        raise HTTPException(400, "Every id is a text that is not empty.")
    return tuple(ids)


def _named(ids: Annotated[list[Any], Body(max_length=MOST_IDS)]) -> tuple[str, ...]:
    return checked(ids)


NamedIds = Annotated[tuple[str, ...], Depends(_named)]


def is_id(each: object) -> bool:
    """Say whether it is a text that may be asked for as an id; no message need have it."""
    return isinstance(each, str) and each != "" and clean(each, _LONGEST_ID) == each


def asked_again(again: AskedAgain) -> Json:
    """Show the operations; `operation_id` is the first one, as in the answer to any retry."""
    first = {"operation_id": again.operation_ids[0]} if again.operation_ids else {}
    return {**first, "total": again.total, "operations": list(again.operation_ids)}
