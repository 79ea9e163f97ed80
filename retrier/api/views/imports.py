"""Failed imports as JSON, with what can be shown of their bytes; and what became of them."""

from base64 import b64encode
from codecs import getincrementaldecoder

from retrier.api.answers import Json, camel, present, time
from retrier.domain.failed_imports import Became, ReadAgain, Send
from retrier.domain.text import jsonable
from retrier.store.queries.imports import ImportDetails, ListedImport

_MOST_REASONS = 50
_OTHER_REASONS = "other reasons"


def item(shown: ListedImport) -> Json:
    """Show an import as lists do."""
    return present(
        {
            "id": shown.import_id,
            "error_queue": shown.error_queue,
            "reason": shown.reason,
            "received_at": time(shown.received_at),
            "state": camel(shown.state),
            "properties_size": shown.properties_size,
            "body_size": shown.body_size,
            "send": _send(shown.send) if shown.send else None,
        }
    )


def details(found: ImportDetails) -> Json:
    """Show an import with what can be read of it, and the beginnings of its bytes."""
    listed = found.listed
    raw = {"encoding": "base64", "content": b64encode(found.raw).decode()}
    more = {
        "unreadable": found.unreadable,
        "properties": jsonable(found.fields),
        "headers": jsonable(found.headers),
        "raw_properties": {**raw, "is_whole": len(found.raw) == listed.properties_size},
        "body": _bytes(found.body, is_whole=len(found.body) == listed.body_size),
        "body_url": f"/imports/{listed.import_id}/body",
    }
    return item(listed) | present(more)


def read_again(came_to: ReadAgain) -> Json:
    """Show how many became what, and why the others did not; one failed message is named."""
    counts = {kind.value: came_to.became[kind] for kind in Became}
    named = {"failed_message_id": came_to.message_ids[0]} if len(came_to.message_ids) == 1 else {}
    skipped = [
        {"reason": str(reason), "count": number} for reason, number in came_to.refused.items()
    ]
    return {
        "reimported": sum(came_to.became.values()),
        **counts,
        **named,
        "kept": _reasons(came_to),
        "skipped": skipped,
    }


def _reasons(came_to: ReadAgain) -> list[Json]:
    """Reasons may quote sizes and places: of many different ones only the most frequent are told."""
    most = came_to.kept.most_common(_MOST_REASONS)
    rest = came_to.kept.total() - sum(number for _, number in most)
    told = [*most, (_OTHER_REASONS, rest)] if rest else most
    return [{"reason": reason, "count": number} for reason, number in told]


def _send(send: Send) -> Json:
    return {"to": send.to, "since": time(send.since), "requested_by": send.requested_by}


def _bytes(data: bytes, *, is_whole: bool) -> Json:
    """Show bytes as text if they are UTF-8, else in base64; the last sign may be cut in two."""
    try:
        text = getincrementaldecoder("utf-8")().decode(data, final=is_whole)
    except UnicodeDecodeError:
        return {
            "encoding": "base64",
            "content": b64encode(data).decode(),
            "is_whole": is_whole,
        }
    return {"encoding": "utf-8", "content": text, "is_whole": is_whole}
