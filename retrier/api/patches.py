"""Patches of retries: read from a request, shown with an operation, and tried out in a preview."""

import json
from collections.abc import Mapping, Sequence

from retrier.api.answers import present
from retrier.api.shapes import operations as shapes
from retrier.api.shapes.messages import HeaderChange
from retrier.domain.headers import is_among
from retrier.domain.patches import PatchedSample, WrongPatch, read_patch, write_patch
from retrier.domain.retry_operation import hash_patch
from retrier.http.problems import WrongField
from retrier.store.patches import PatchPreview

LONGEST_SAMPLE = 20_000
"""Characters of a body that a sample shows, at most."""


def patch_of(
    given: Mapping[str, object] | None, drop_headers: Sequence[str] | None = None
) -> str | None:
    """Return the patch of a request as it is kept. Raises WrongField with what is wrong in it."""
    if given is None:
        return None
    try:
        text = write_patch(given)
    except WrongPatch as error:
        where = f"body.patch.{error.where}" if error.where else "body.patch"
        raise WrongField(where, f"{error.where or 'The patch'} {error}.") from None
    for name in read_patch(text).set_headers:
        if is_among(name, drop_headers or ()):
            raise WrongField("body.drop_headers", f"{name} is set by the patch, and left out here.")
    return text


def shown_patch(patch: str) -> Mapping[str, object]:
    """Show a patch as it was asked for."""
    shown: Mapping[str, object] = json.loads(patch)
    return shown


def patch_preview(patch: str | None, found: PatchPreview | None) -> shapes.PatchPreview | None:
    """Show what a patch would make of the messages, with some of them before and after."""
    if patch is None or found is None:
        return None
    return {
        "hash": hash_patch(patch),
        "looked_at": found.looked_at,
        "is_all": found.is_all,
        "would_change": found.changed,
        "would_not": [{"reason": why, "count": n} for why, n in found.refused.items()],
        "samples": [_sample(each) for each in found.samples],
    }


def _sample(sample: PatchedSample) -> shapes.PatchedSample:
    before, after = sample.body_before, sample.body_after
    view: shapes.PatchedSample = {
        "id": sample.unique_message_id,
        "headers": [
            present(HeaderChange(key=each.name, before=each.before, after=each.after))
            for each in sample.headers
        ],
        "body_changed": sample.body_changed,
        "body_before": None if before is None else before[:LONGEST_SAMPLE],
        "body_after": None if after is None else after[:LONGEST_SAMPLE],
        "body_is_cut": max(len(before or ""), len(after or "")) > LONGEST_SAMPLE,
    }
    return present(view)
