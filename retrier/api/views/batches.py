"""Retry batches alive and the processor as JSON."""

from dataclasses import asdict

from retrier.api.views.json import Json, camel, present, time
from retrier.api.views.messages import claim
from retrier.store.queries.batches import BatchCount, BatchDetails, Processor


def batch(counted: BatchCount) -> Json:
    """Show a batch and its claims counted."""
    shown = counted.batch
    times = {
        name: time(getattr(shown, name)) for name in ("not_before", "created_at", "modified_at")
    }
    counts = {
        "claims": counted.claims,
        "forwarded": counted.forwarded,
        "in_doubt": counted.in_doubt,
        "is_now_forwarding": counted.is_now_forwarding,
    }
    own = {**asdict(shown), **times, **counts, "id": shown.batch_id, "status": camel(shown.status)}
    return present({name: value for name, value in own.items() if name != "batch_id"})


def details(found: BatchDetails) -> Json:
    """Show a batch and the claims of it that are in doubt."""
    return batch(found.counted) | {"claims_in_doubt": [claim(each) for each in found.in_doubt]}


def processor(found: Processor | None) -> Json:
    """Show who holds the lease, and what is being forwarded."""
    if found is None:
        return {"is_held": False}
    times = {n: time(getattr(found, n)) for n in ("acquired_at", "renewed_at", "expires_at")}
    return present(asdict(found) | times)
