"""Streams as JSON."""

from retrier.api.answers import Json, camel, present, time
from retrier.domain.streams import Head, Released, tell_state
from retrier.store.queries.streams import ListedStream, StreamDetails, StreamMessage


def stream(shown: ListedStream) -> Json:
    """Show a stream: how much of it is open and held, and what its head waits for."""
    return {
        "id": shown.stream.stream_id,
        "queue": shown.stream.queue,
        "open": shown.open,
        "held": shown.held,
        "released": shown.released,
        "head": _head(shown.head),
    }


def details(found: StreamDetails) -> Json:
    """Show a stream with one page of its open messages, in its order."""
    return stream(found.listed) | {"messages": [_message(each) for each in found.messages.items]}


def released(done: Released) -> Json:
    """Show what was let go."""
    return {"released": len(done.ids), "ids": list(done.ids), "not_held": list(done.not_held)}


def _head(head: Head) -> Json:
    return present(
        {
            "id": head.unique_message_id,
            "status": camel(head.status),
            "disposition": head.disposition,
            "retry_at": time(head.retry_at),
            "state": f"a message {tell_state(head)}",
        }
    )


def _message(shown: StreamMessage) -> Json:
    return present(
        {
            "id": shown.unique_message_id,
            "status": camel(shown.status),
            "disposition": shown.disposition,
            "retry_at": time(shown.retry_at),
            "rule": shown.stream_rule,
            "released": shown.released,
            "on_its_way": shown.on_its_way,
            "first_failure": time(shown.first_failure),
            "last_failure": time(shown.last_failure),
            "held_because": shown.held_because,
        }
    )
