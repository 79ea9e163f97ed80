"""Failed messages: listed, shown as JSON, and the history of one."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Annotated

from fastapi import Depends, Query, Request

from retrier.api.answers import (
    HEADERS,
    Answer,
    Refusal,
    Routes,
    answer,
    present,
    problem,
    revalidated,
    time,
)
from retrier.api.edits import edit
from retrier.api.parts import ApiParts, Parts
from retrier.api.places import IdsPage, MessagesPage
from retrier.api.requests import (
    DIRECTION,
    UNPACKED,
    NamedIds,
    OrderQuery,
    PageQuery,
    UnpackedWanted,
    Wanted,
    page_headers,
)
from retrier.api.shapes import camel
from retrier.api.shapes import messages as shapes
from retrier.domain.edits import header_texts
from retrier.domain.failed_message import FailureGroup
from retrier.domain.message_views import HeaderFacts
from retrier.domain.wait_reasons import describe_reasons
from retrier.domain.wire import unpack
from retrier.store.attempts import ShownAttempt, list_attempts
from retrier.store.engine.database import Database
from retrier.store.fields import find_fields
from retrier.store.groups import list_queues, summarise
from retrier.store.imports import find_send
from retrier.store.message_details import (
    MessageBody,
    MessageDetails,
    find_body,
    find_edited_body,
    find_listed,
    find_message,
)
from retrier.store.message_history import HistoryLine, find_history, put_into_words
from retrier.store.message_lists import ListedMessage, ShownClaim, list_ids, list_messages
from retrier.store.pending import PendingRetry
from retrier.store.selections import find_ids
from retrier.store.wait_reasons import find_waits, why_listed_wait

_NO_HOST = "00000000-0000-0000-0000-000000000000"


def item(message: ListedMessage, waits_because: str | None = None) -> shapes.FailedMessage:
    """Show a message as lists do.

    `exception` and `receiving_endpoint` are always there: without them ServicePulse shows no list.
    """
    shown: shapes.FailedMessage = {
        "id": message.unique_message_id,
        "message_type": message.message_type,
        "time_sent": time(message.time_sent),
        "is_system_message": message.facts.is_system,
        "exception": _exception(message),
        "message_id": message.message_id,
        "number_of_processing_attempts": message.attempts,
        "status": camel(message.status),
        "resolution": camel(message.resolution) if message.resolution else None,
        "sending_endpoint": sending_endpoint(message.facts),
        "receiving_endpoint": receiving_endpoint(message),
        "process": message.process,
        "node": message.node,
        "queue_address": message.queue,
        "destination": message.destination,
        "time_of_failure": time(message.last_failure),
        "first_failure": time(message.first_failure),
        "last_modified": time(message.last_modified),
        "edited": message.edit_of is not None,
        "edit_of": message.edit_of,
        "failure_reason": message.failure_reason,
        "disposition": camel(message.disposition),
        "disposition_reason": message.disposition_reason,
        "retry_at": time(message.retry_at),
        "reason": message.reason,
        "policy": message.policy,
        "failure_count": message.failure_count,
        "waits_because": waits_because,
    }
    return present(shown)


def listed(db: Database, shown: Sequence[ListedMessage]) -> list[shapes.FailedMessage]:
    """Show messages as a list does, with why those wait that are scheduled."""
    waits = why_listed_wait(db, shown)
    return [item(each, waits.get(each.unique_message_id)) for each in shown]


def details(
    found: MessageDetails,
    waits_because: str | None = None,
    fields: Mapping[str, str] | None = None,
) -> shapes.FailedMessageDetails:
    """Show a message with its attempts, groups and claim; None of fields if none is declared."""
    unique_id = found.message.unique_message_id
    shown: shapes.FailedMessageDetails = {
        **item(found.message),
        "unique_message_id": unique_id,
        "processing_attempts": [_attempt(each, found) for each in found.attempts],
        "failure_groups": [_group(group) for group in found.groups],
        "error_queue": found.error_queue,
        "dialect": found.dialect,
        "content_type": found.content_type,
        "properties": dict(found.properties),
        "body_size": found.body_size,
        "body_url": f"/messages/{unique_id}/body",
        "completed_steps": found.completed_steps,
        "stream": found.stream_id,
        "stream_position": found.stream_position,
        "stream_position_unread": found.stream_position_unread,
        "resolved_at": time(found.resolved_at),
        "last_retry_id": found.last_retry_id,
        "maybe_copy_of": found.maybe_copy_of,
        "derived_from": found.derived_from,
        "derived": list(found.derived) or None,
        "edits": [edit(each) for each in found.edits] or None,
        "edited_versions": list(found.edited_versions) or None,
        "claim": claim(found.claim) if found.claim else None,
        "sent_to": found.sent_to,
        "waits_because": waits_because,
        "fields": fields,
    }
    return present(shown)


def pending(found: PendingRetry) -> shapes.PendingRetry:
    """Show a pending retry: its message, its claim, where it was sent, and how long it waits."""
    return {
        **item(found.message),
        "sent_to": found.sent_to,
        "waiting_seconds": int(found.waits.total_seconds()),
        "claim": claim(found.claim),
    }


def claim(of: ShownClaim) -> shapes.Claim:
    """Show a claim; it is in doubt while it is stamped, but not recorded as forwarded."""
    shown: shapes.Claim = {
        "unique_message_id": of.unique_message_id,
        "batch_id": of.batch_id,
        "operation_id": of.operation_id,
        "retry_id": of.retry_id,
        "sending_since": time(of.sending_since),
        "forwarded_at": time(of.forwarded_at),
        "in_doubt": of.sending_since is not None and of.forwarded_at is None,
    }
    return present(shown)


def attempt(shown: ShownAttempt) -> shapes.ProcessingAttempt:
    """Show one failure, without headers."""
    failure_details: shapes.FailureDetails = {
        "address_of_failing_endpoint": shown.queue,
        "time_of_failure": time(shown.time_of_failure),
        "exception": _exception(shown),
    }
    failed: shapes.ProcessingAttempt = {
        "attempted_at": time(shown.time_of_failure or shown.received_at),
        "received_at": time(shown.received_at),
        "failure_details": present(failure_details),
        "retry_id": shown.retry_id,
        "host": shown.host,
        "process": shown.process,
        "node": shown.node,
    }
    return present(failed)


def _attempt(shown: ShownAttempt, found: MessageDetails) -> shapes.ProcessingAttempt:
    """Show one failure; of the one whose details the message shows also the headers."""
    headers = header_texts(found.headers) if shown.is_current else None
    own: shapes.ProcessingAttempt = {
        **attempt(shown),
        "message_id": found.message.message_id,
        "headers": headers,
        "message_metadata": _metadata(shown, found),
    }
    return present(own)


def _metadata(shown: ShownAttempt, found: MessageDetails) -> shapes.MessageMetadata:
    """Show what ServiceControl finds out about one failure; of older ones little is known."""
    message = found.message
    view: shapes.MessageMetadata = {
        "MessageType": shown.message_type,
        "ReceivingEndpoint": {
            "Name": shown.endpoint or shown.queue,
            "HostId": shown.host_id or _NO_HOST,
            "Host": shown.host or "",
        },
    }
    if shown.is_current:
        view["MessageId"] = message.message_id
        view["MessageIntent"] = message.facts.intent
        view["ConversationId"] = message.facts.conversation_id
        view["IsSystemMessage"] = message.facts.is_system
        view["TimeSent"] = time(message.time_sent)
        view["ContentType"] = found.content_type
        view["ContentLength"] = found.body_size
    return present(view)


def _exception(failed: ListedMessage | ShownAttempt) -> shapes.ExceptionDetails:
    source = failed.source if isinstance(failed, ShownAttempt) else failed.facts.source
    shown: shapes.ExceptionDetails = {
        "exception_type": failed.exception_type,
        "source": source,
        "message": failed.exception_message or failed.failure_reason or "",
        "stack_trace": failed.stack_trace or "",
    }
    return present(shown)


def receiving_endpoint(message: ListedMessage) -> shapes.Endpoint:
    """Show the endpoint that failed, and on which host."""
    return {
        "name": message.endpoint or message.queue,
        "host_id": message.host_id or _NO_HOST,
        "host": message.host or "",
    }


def sending_endpoint(facts: HeaderFacts) -> shapes.Endpoint | None:
    """Show the endpoint that sent a message; None if its headers name none."""
    sender = facts.sender
    if sender is None:
        return None
    return {
        "name": sender.name,
        "host_id": sender.host_id or _NO_HOST,
        "host": sender.host or "",
    }


def _group(group: FailureGroup) -> shapes.GroupOfMessage:
    return {"id": group.group_id, "title": group.title, "type": group.classifier}


def full_attempt(shown: ShownAttempt) -> shapes.Attempt:
    """Show one failure as the page of its message does, and all else that is known of it."""
    full: shapes.Attempt = {
        **attempt(shown),
        "attempt_id": shown.attempt_id,
        "error_queue": shown.error_queue,
        "dialect": shown.dialect,
        "endpoint": shown.endpoint,
        "message_type": shown.message_type,
        "failure_reason": shown.failure_reason,
        "redelivered": shown.redelivered,
        "disposition": camel(shown.disposition) if shown.disposition else None,
        "disposition_reason": shown.disposition_reason,
        "policy": shown.policy,
        "reason": shown.reason,
        "failure_count": shown.failure_count,
        "retry_at": time(shown.retry_at),
        "is_current": shown.is_current,
    }
    return present(full)


def line(told: HistoryLine) -> shapes.HistoryLine:
    """Show one thing that happened: `kind` for programs, `text` for people."""
    kind, text = put_into_words(told)
    logged, asked, failed = told.event, told.request, told.attempt
    who = asked.requested_by if asked else None
    shown: shapes.HistoryLine = {
        "at": time(told.at),
        "kind": kind,
        "text": text,
        "who": logged.who if logged else who,
        "why": asked.why if asked else None,
        "operation_id": told.operation_id,
        "retry_id": told.retry_id,
        "batch_id": logged.batch_id if logged else None,
        "event_id": str(logged.event_id) if logged else None,
        "attempt_id": failed.attempt_id if failed else None,
        "time_of_failure": time(failed.time_of_failure) if failed else None,
        "disposition": failed.disposition if failed else None,
        "details": logged.details if logged else None,
    }
    return present(shown)


router = Routes(prefix="/api", tags=["failed messages"])

_IMPORT = "It is that of a failed import: see `retrier imports show ID`, or GET /api/imports/{id}."


@router.head("/errors")
@router.get("/errors")
def get_errors(
    request: Request, parts: Parts, wanted: Wanted, order: OrderQuery, page: MessagesPage
) -> Answer[list[shapes.FailedMessage]]:
    """List failed messages."""
    found = list_messages(parts.db, wanted, order, page.wanted, parts.codec)
    items = listed(parts.db, found.items)
    return answer(request, items, page.headers(request, found))


@router.get("/errors/ids", name="get_error_ids")
def get_ids(
    request: Request, parts: Parts, wanted: Wanted, order: OrderQuery, page: IdsPage
) -> Answer[list[str]]:
    """List the ids of failed messages and nothing else of them, to be followed to its end."""
    found = list_ids(parts.db, wanted, order, page.wanted)
    return answer(request, list(found.items), page.headers(request, found))


@router.get("/endpoints/{name:path}/errors")
def get_errors_of_endpoint(
    request: Request, name: str, parts: Parts, wanted: Wanted, order: OrderQuery, page: MessagesPage
) -> Answer[list[shapes.FailedMessage]]:
    """List the failed messages of one endpoint."""
    of_endpoint = replace(wanted, endpoint=name)
    found = list_messages(parts.db, of_endpoint, order, page.wanted, parts.codec)
    items = listed(parts.db, found.items)
    return answer(request, items, page.headers(request, found))


@router.get("/errors/summary", name="get_errors_summary")
def get_summary(request: Request, parts: Parts) -> Answer[shapes.Summary]:
    """Count unresolved messages by endpoint, host, type and disposition."""
    summary = parts.cache.get("summary", partial(summarise, parts.db))
    counts: shapes.Summary = {
        "Endpoints": summary.endpoints,
        "Hosts": summary.hosts,
        "Message types": summary.message_types,
        "Dispositions": summary.dispositions,
    }
    return answer(request, counts)


@router.get("/errors/queues/addresses")
def get_queue_addresses(
    request: Request, parts: Parts, page: PageQuery
) -> Answer[list[shapes.QueueAddress]]:
    """List the queues on which messages failed, with the number of messages in any status."""
    found = list_queues(parts.db, page)
    items: list[shapes.QueueAddress] = [
        {"physical_address": each.queue, "failed_message_count": each.count} for each in found.items
    ]
    return answer(request, items, page_headers(request, page, found.total))


@router.post("/errors/ids")
def find_message_ids(
    request: Request, ids: NamedIds, parts: Parts
) -> Answer[Mapping[str, Sequence[str]]]:
    """Return for each text the ids of the messages that have it as their id or message id."""
    return answer(request, find_ids(parts.db, ids))


@router.get("/errors/last/{failed_message_id}")
def get_last_attempt(
    request: Request, failed_message_id: str, parts: Parts
) -> Answer[shapes.FailedMessage] | Refusal:
    """Return one message as lists show it, with its last failure."""
    found = find_listed(parts.db, failed_message_id, parts.codec)
    if found is None:
        return _unknown(parts, failed_message_id)
    return answer(request, listed(parts.db, [found])[0])


@router.get("/errors/{failed_message_id}")
def get_error(
    request: Request, failed_message_id: str, parts: Parts
) -> Answer[shapes.FailedMessageDetails] | Refusal:
    """Return one message with headers, attempts, groups and claim."""
    found = find_message(parts.db, failed_message_id, parts.codec)
    if found is None:
        return _unknown(parts, failed_message_id)
    found = replace(found, headers=parts.headers(found.headers), edits=parts.changes(found.edits))
    reasons = find_waits(parts.db, failed_message_id)
    return answer(request, details(found, describe_reasons(reasons), _fields(parts, found)))


def _fields(parts: ApiParts, found: MessageDetails) -> Mapping[str, str] | None:
    """Return the values of its declared fields; None if there is none, or they may not be read."""
    key = found.message.unique_message_id
    is_shown = parts.field_names and parts.shows_content
    return find_fields(parts.db, [key])[key] if is_shown else None


def _unknown(parts: ApiParts, failed_message_id: str) -> Refusal:
    detail = f"No failed message has the id {failed_message_id[:100]}."
    if find_send(parts.db, failed_message_id) is None:
        return problem(404, detail)
    return problem(404, f"{detail} {_IMPORT}")


_MEDIA_TYPE = re.compile(r"[\w.+*-]+/[\w.+*-]+(\s*;[\x20-\x7e]*)?", re.ASCII)


@router.get("/messages/{message_id:path}/body", name="get_message_body")
def get_body(
    request: Request, message_id: str, parts: Parts, *, unpacked: UnpackedWanted
) -> Answer[bytes] | Refusal:
    """Return a body, by unique message id or message id; 204 if it is empty.

    It is as it came, byte for byte, unless `unpacked=yes` asks for what a person can read.
    """
    found = find_body(parts.db, message_id, parts.codec)
    if found is None:
        return problem(404, f"No failed message has the id {message_id[:100]}.")
    if not found.body:
        return Answer(status_code=204, headers=HEADERS)
    if not unpacked:
        return revalidated(request, found.body, found.body_hash, _body_headers(found))
    shown = unpack(found.body, len(found.body), found.packed)
    headers = {**_body_headers(replace(found, body=shown.content)), UNPACKED: shown.note}
    return revalidated(request, shown.content, f"{found.body_hash}-unpacked", headers)


@router.get("/errors/{failed_message_id}/edits/{edit_id}/body", name="get_edited_body")
def get_edited_body(
    request: Request, failed_message_id: str, edit_id: str, parts: Parts
) -> Answer[bytes] | Refusal:
    """Return the body that an edit sends instead of the message's own, byte for byte; 204 if empty."""
    found = find_edited_body(parts.db, failed_message_id, edit_id, parts.codec)
    if found is None:
        return problem(404, f"No edit of this message has the id {edit_id[:100]}.")
    if not found.body:
        return Answer(status_code=204, headers=HEADERS)
    return revalidated(request, found.body, found.body_hash, _body_headers(found))


def _body_headers(found: MessageBody) -> dict[str, str]:
    return {
        "Content-Type": _content_type(found),
        "Content-Disposition": "attachment",
        "Content-Security-Policy": "sandbox; default-src 'none'",
    }


def _content_type(found: MessageBody) -> str:
    """Return the sender's content type if it is valid, else a guess from the bytes."""
    if found.content_type and _MEDIA_TYPE.fullmatch(found.content_type):
        return found.content_type
    try:
        found.body.decode()
    except UnicodeDecodeError:
        return "application/octet-stream"
    return "text/plain; charset=utf-8"


history_router = Routes(prefix="/api", tags=["failed messages"])


def _direction(
    direction: Annotated[str, Query(description="asc (oldest first) or desc"), DIRECTION] = "",
) -> bool:
    return direction == "desc"


Descending = Annotated[bool, Depends(_direction)]


@history_router.get("/errors/{failed_message_id}/attempts", name="get_error_attempts")
def get_attempts(
    request: Request, failed_message_id: str, parts: Parts, page: PageQuery, newest: Descending
) -> Answer[list[shapes.Attempt]] | Refusal:
    """List every failure of a message, the oldest first."""
    found = list_attempts(parts.db, failed_message_id, page, parts.codec, descending=newest)
    if found is None:
        return _no_message(failed_message_id)
    items = [full_attempt(each) for each in found.items]
    return answer(request, items, page_headers(request, page, found.total))


@history_router.get("/errors/{failed_message_id}/events", name="get_error_events")
def get_history(
    request: Request, failed_message_id: str, parts: Parts, page: PageQuery, newest: Descending
) -> Answer[list[shapes.HistoryLine]] | Refusal:
    """List everything that happened to a message, the oldest first."""
    found = find_history(parts.db, failed_message_id, page, parts.codec, descending=newest)
    if found is None:
        return _no_message(failed_message_id)
    items = [line(each) for each in found.items]
    return answer(request, items, page_headers(request, page, found.total))


def _no_message(failed_message_id: str) -> Refusal:
    return problem(404, f"No failed message has the id {failed_message_id[:100]}.")
