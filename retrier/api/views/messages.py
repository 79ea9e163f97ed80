"""Failed messages and their groups as JSON."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict

from retrier.api.answers import Json, camel, present, time
from retrier.domain.failed_message import FailureGroup
from retrier.store.engine.database import Database
from retrier.store.queries.attempts import ShownAttempt
from retrier.store.queries.details import MessageDetails
from retrier.store.queries.message_waits import why_listed_wait
from retrier.store.queries.messages import ListedMessage, ShownClaim
from retrier.store.queries.pending import PendingRetry

_NO_HOST = "00000000-0000-0000-0000-000000000000"


def item(message: ListedMessage) -> Json:
    """Show a message as lists do.

    `exception` and `receiving_endpoint` are always there: without them ServicePulse shows no list.
    """
    return present(
        {
            "id": message.unique_message_id,
            "message_type": message.message_type,
            "time_sent": time(message.time_sent),
            "is_system_message": False,
            "exception": _exception(message),
            "message_id": message.message_id,
            "number_of_processing_attempts": message.attempts,
            "status": camel(message.status),
            "resolution": camel(message.resolution) if message.resolution else None,
            "receiving_endpoint": _endpoint(message),
            "process": message.process,
            "node": message.node,
            "queue_address": message.queue,
            "destination": message.destination,
            "time_of_failure": time(message.last_failure),
            "first_failure": time(message.first_failure),
            "last_modified": time(message.last_modified),
            "edited": False,
            "failure_reason": message.failure_reason,
            "disposition": camel(message.disposition),
            "disposition_reason": message.disposition_reason,
            "retry_at": time(message.retry_at),
            "reason": message.reason,
            "policy": message.policy,
            "failure_count": message.failure_count,
        }
    )


def listed(db: Database, shown: Sequence[ListedMessage]) -> list[Json]:
    """Show messages as a list does, with why those wait that are scheduled."""
    waits = why_listed_wait(db, shown)
    return [
        item(each) | present({"waits_because": waits.get(each.unique_message_id)}) for each in shown
    ]


def details(found: MessageDetails) -> Json:
    """Show a message with its attempts, groups and claim."""
    unique_id = found.message.unique_message_id
    more = {
        "unique_message_id": unique_id,
        "processing_attempts": [_attempt(each, found) for each in found.attempts],
        "failure_groups": [_group(group) for group in found.groups],
        "error_queue": found.error_queue,
        "dialect": found.dialect,
        "content_type": found.content_type,
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
        "claim": claim(found.claim) if found.claim else None,
        "sent_to": found.sent_to,
    }
    return item(found.message) | present(more)


def pending(found: PendingRetry) -> Json:
    """Show a pending retry: its message, its claim, where it was sent, and how long it waits."""
    more = {
        "sent_to": found.sent_to,
        "waiting_seconds": int(found.waits.total_seconds()),
        "claim": claim(found.claim),
    }
    return item(found.message) | more


def claim(shown: ShownClaim) -> Json:
    """Show a claim; it is in doubt while it is stamped, but not recorded as forwarded."""
    times = {
        "sending_since": time(shown.sending_since),
        "forwarded_at": time(shown.forwarded_at),
        "in_doubt": shown.sending_since is not None and shown.forwarded_at is None,
    }
    return present(asdict(shown) | times)


def attempt(shown: ShownAttempt) -> Json:
    """Show one failure, without headers."""
    failure_details = {
        "address_of_failing_endpoint": shown.queue,
        "time_of_failure": time(shown.time_of_failure),
        "exception": _exception(shown),
    }
    return present(
        {
            "attempted_at": time(shown.time_of_failure or shown.received_at),
            "received_at": time(shown.received_at),
            "failure_details": present(failure_details),
            "retry_id": shown.retry_id,
            "host": shown.host,
            "process": shown.process,
            "node": shown.node,
        }
    )


def _attempt(shown: ShownAttempt, found: MessageDetails) -> Json:
    """Show one failure; of the one whose details the message shows also the headers."""
    headers = _headers(found.headers) if shown.is_current else None
    own = {"message_id": found.message.message_id, "headers": headers}
    return attempt(shown) | present(own)


def _headers(headers: Mapping[str, object]) -> dict[str, str]:
    """Show every value as text: in ServiceControl all header values are text."""
    return {
        name: value if isinstance(value, str) else json.dumps(value)
        for name, value in headers.items()
    }


def _exception(failed: ListedMessage | ShownAttempt) -> Json:
    always = {
        "message": failed.exception_message or failed.failure_reason or "",
        "stack_trace": failed.stack_trace or "",
    }
    return present({"exception_type": failed.exception_type}) | always


def _endpoint(message: ListedMessage) -> Json:
    return {
        "name": message.endpoint or message.queue,
        "host_id": message.host_id or _NO_HOST,
        "host": message.host or "",
    }


def _group(group: FailureGroup) -> Json:
    return {"id": group.group_id, "title": group.title, "type": group.classifier}
