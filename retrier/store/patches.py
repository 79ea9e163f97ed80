"""Patches (`retry_operations.patch`): the messages as they are before one, and what it would make."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from sqlalchemy import Select, select

from retrier.domain.copies import without_envelope
from retrier.domain.edits import EditRefusal
from retrier.domain.failed_message import Failure, ReadsSenderFacts
from retrier.domain.patches import (
    Patch,
    PatchedSample,
    PatchRefusal,
    PatchRefused,
    patch_message,
    read_patch,
    show_sample,
)
from retrier.domain.recording import StoredMessage
from retrier.domain.retry_batch import StoredOriginal
from retrier.domain.values import dataclass
from retrier.domain.wire import PropertyCodec, UnreadableProperties
from retrier.store.attempts import find_originals
from retrier.store.engine.transaction import StoredRow, Transaction
from retrier.store.schema import failed_messages

messages = failed_messages.c

MOST_LOOKED_AT = 10_000
"""Messages that a preview patches, at most: the first ones that would be sent."""

MOST_BYTES = 64 * 1024 * 1024
"""Bytes of properties and bodies that it reads, at most."""

SAMPLES = 5
"""Messages that are shown before and after, at most."""

_CHUNK = 200
_CHUNK_BYTES = 4 * 1024 * 1024
"""The session with the database ends if it waits for long while these are patched."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PatchPreview:
    """What a patch would make of the messages that were looked at; with `is_all`, of all of them.

    `refused` counts by reason those that it cannot be applied to.
    """

    looked_at: int
    is_all: bool
    changed: int
    refused: Mapping[str, int]
    samples: Sequence[PatchedSample]


def preview_patch(
    tx: Transaction, chosen: Select[Any], text: str, codec: PropertyCodec
) -> PatchPreview:
    """Apply a patch to the first of these messages; nothing is kept of what it makes.

    `chosen` selects their numbers and failure numbers.
    """
    patch, row = read_patch(text), chosen.subquery().c
    size = (messages.properties_size + messages.body_size).label("size")
    query = (
        select(row.number, messages.unique_message_id, messages.attempt_id, size)
        .join_from(row.number.table, failed_messages, messages.number == row.number)
        .order_by(row.failure_seq)
        .limit(MOST_LOOKED_AT + 1)
    )
    found = tx.execute(query).all()
    looked_at = _within_bounds(found)
    refused: Counter[str] = Counter()
    samples: list[PatchedSample] = []
    changed = 0
    for each, original in load_whole(tx, looked_at):
        made = make_patched(codec, original, patch)
        if isinstance(made, PatchRefused):
            refused[made.reason] += 1
            continue
        changed += 1
        if len(samples) < SAMPLES:
            samples.append(show_sample(codec, each.unique_message_id, *made))
    return PatchPreview(
        looked_at=len(looked_at),
        is_all=len(looked_at) == len(found),
        changed=changed,
        refused=dict(refused.most_common()),
        samples=samples,
    )


def _within_bounds(found: Sequence[StoredRow]) -> Sequence[StoredRow]:
    """Return the first ones that are looked at, one at least."""
    total = 0
    for at, each in enumerate(found[:MOST_LOOKED_AT]):
        total += each.size
        if total > MOST_BYTES and at:
            return found[:at]
    return found[:MOST_LOOKED_AT]


def load_whole(
    tx: Transaction, found: Sequence[StoredRow]
) -> Iterator[tuple[StoredRow, StoredOriginal | None]]:
    """Yield rows with their messages, None if deleted; a row has an `attempt_id` and a `size`."""
    for chunk in _chunks(found):
        originals = find_originals(tx, [each.attempt_id for each in chunk])
        yield from ((each, originals.get(each.attempt_id)) for each in chunk)


def _chunks(found: Sequence[StoredRow]) -> Iterator[Sequence[StoredRow]]:
    chunk: list[StoredRow] = []
    size = 0
    for each in found:
        if chunk and (len(chunk) == _CHUNK or size + each.size > _CHUNK_BYTES):
            yield chunk
            chunk, size = [], 0
        chunk.append(each)
        size += each.size
    if chunk:
        yield chunk


def make_patched(
    codec: PropertyCodec, original: StoredOriginal | None, patch: Patch
) -> tuple[StoredOriginal, StoredOriginal] | PatchRefused:
    """Return what is sent without the patch and with it, as Forwarding makes it; or why not."""
    if original is None:
        return PatchRefused(reason=str(EditRefusal.DELETED))
    try:
        original = without_envelope(codec, original)
    except UnreadableProperties:
        return PatchRefused(reason=str(PatchRefusal.UNREADABLE))
    made = patch_message(codec, original, patch)
    return made if isinstance(made, PatchRefused) else (original, made)


def with_sent(
    tx: Transaction, stored: Iterable[StoredMessage], failed: Iterable[Failure]
) -> Iterable[StoredMessage]:
    """Add what was sent under the patched retries that failures name: these are compared with it.

    Nearly no message was patched: then nothing is looked up. Made here and not where they are
    compared: to patch many large bodies takes longer than the session may be silent.
    """
    stored = list(stored)
    numbers = sorted(each.number for each in stored if each.patches and each.number is not None)
    if not numbers:
        return stored
    senders = {each.retry_id: each.sender for each in failed if each.retry_id is not None}
    query = select(messages.number, messages.attempt_id).where(
        tx.sql.member(messages.number, numbers)
    )
    shown = {row.number: row.attempt_id for row in tx.execute(query)}
    originals = find_originals(tx, sorted(shown.values()))
    found, silent = [], 0
    for each in stored:
        original = originals.get(shown.get(each.number or 0, 0)) if each.patches else None
        if original is None:
            found.append(each)
            continue
        silent += len(original.raw) + len(original.body)
        if silent > _CHUNK_BYTES:
            tx.execute(select(1))
            silent = 0
        found.append(replace(each, sent=dict(_sent(each.patches, original, senders))))
    return found


def _sent(
    patches: Mapping[str, str],
    original: StoredOriginal,
    senders: Mapping[str, ReadsSenderFacts],
) -> Iterator[tuple[str, tuple[bytes, bytes]]]:
    for retry_id, patch in patches.items():
        sender = senders.get(retry_id)
        made = sender and sender.patched(original.raw, original.body, original.dialect, patch)
        if made:
            yield retry_id, made
