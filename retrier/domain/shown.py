"""What people see of one failure, derived from its stored bytes."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from retrier.domain import dialects
from retrier.domain.dialects import dialect as dialect_of
from retrier.domain.dialects.accounts import read_stored, read_worker
from retrier.domain.failed_message import FailureDetails
from retrier.domain.text import clean, jsonable, out_of_limits
from retrier.domain.wire import Properties, PropertyCodec, UnreadableProperties


@dataclass(frozen=True, slots=True, kw_only=True)
class Shown:
    """Headers and texts of a failure, as JSON and every database can hold them."""

    headers: Mapping[str, object] = field(default_factory=dict)
    content_type: str | None = None
    endpoint: str | None = None
    exception_message: str | None = None
    stack_trace: str | None = None
    host: str | None = None
    host_id: str | None = None
    process: str | None = None
    node: str | None = None


NOTHING = Shown()
_UNKNOWN = FailureDetails(queue="", destination="")


def derive(
    codec: PropertyCodec, raw: bytes, *, dialect: str, otherwise: str | None = None
) -> Shown:
    """Return what the raw properties of a failure say, cut and cleaned. Never raises.

    `otherwise` is the queue it failed on: used if the headers name none, and to find again which
    of several accounts of the failure held. Bytes that this codec
    cannot read came from the other kind of broker: NOTHING is returned.
    """
    try:
        properties = codec.read(raw)
    except UnreadableProperties:
        return NOTHING
    details = _details(properties, dialect, otherwise) or _UNKNOWN
    content_type = dialect_of.field(properties, "content_type")
    return Shown(
        headers=jsonable(properties.headers),
        content_type=clean(content_type) if content_type else None,
        endpoint=details.endpoint,
        exception_message=details.exception_message,
        stack_trace=details.stack_trace,
        host=details.host,
        host_id=details.host_id,
        process=details.process,
        node=details.node,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Said:
    """Texts of the exception, how often a worker crashed over the message, and why it gave up."""

    exception_message: str | None = None
    stack_trace: str | None = None
    crashes: int = 0
    rejected: str | None = None


def read_said(
    codec: PropertyCodec, raw: bytes, *, dialect: str, otherwise: str | None = None
) -> Said:
    """Return what a policy looks at; quicker than `derive`, which makes it fit to be shown."""
    try:
        properties = codec.read(raw)
    except UnreadableProperties:
        return Said()
    details = _details(properties, dialect, otherwise)
    crashes, rejected = read_worker(properties)
    return Said(
        crashes=crashes,
        rejected=rejected,
        exception_message=details.exception_message if details else None,
        stack_trace=details.stack_trace if details else None,
    )


def _details(properties: Properties, dialect: str, otherwise: str | None) -> FailureDetails | None:
    """Return what the headers say, as ingestion understood it."""
    known = dialects.by_name(dialect)
    details = read_stored(known, properties, queue=otherwise) if known else None
    if not isinstance(details, FailureDetails):
        return None
    return replace(details, **out_of_limits(details))
