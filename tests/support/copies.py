"""Copies of messages for the staging queue, and retries, made as the processor makes them."""

from dataclasses import replace
from typing import Any

from retrier.domain.copies import SendingTerms, Stamps, make_forwarded, make_staged, read_staged
from retrier.domain.retry_batch import ClaimedMessage, StoredOriginal
from retrier.domain.wire import PropertyCodec

STAMPS = Stamps(staging_id="s-1", installation_id="i-1")
CLAIMED = ClaimedMessage(
    number=1, unique_message_id="u-1", retry_id="r-1", destination="orders", size=7
)


def copy_of(codec: PropertyCodec, **changes: Any) -> bytes:
    """Return the properties of a copy on its way through a staging queue."""
    return make_staged(codec, replace(CLAIMED, **changes), STAMPS)


def retry_of(
    codec: PropertyCodec,
    raw: bytes,
    *,
    dialect: str = "nservicebus",
    completed_steps: str | None = None,
    own_user: str | None = None,
    copy: bytes | None = None,
    keep_transient: bool = False,
    leave_out: tuple[str, ...] = (),
) -> bytes:
    """Return the properties with which a message of these is sent back."""
    staged = read_staged(codec, copy if copy is not None else copy_of(codec))
    assert staged is not None
    return make_forwarded(
        codec,
        StoredOriginal(raw, b"", dialect, "error", completed_steps),
        staged,
        SendingTerms(
            acknowledgement_queue="error",
            own_user=own_user,
            keep_transient=keep_transient,
            leave_out=leave_out,
        ),
    )
