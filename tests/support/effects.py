"""The events that follow an effect: at each of them a test kills a process."""

from typing import get_args

from retrier.events.ingestion import IngestionEffect
from retrier.events.processor import (
    ArchiveEffect,
    BreakerEffect,
    ForwardingEffect,
    LeaseEffect,
    OutgoingPublished,
    PreparationEffect,
    RetentionEffect,
    StoppingEffect,
)
from retrier.events.service import (
    AuditEffect,
    ChunkPresumed,
    EditEffect,
    ImportEffect,
    RequestEffect,
)

REQUEST_POINTS: list[str] = [event.name for event in get_args(RequestEffect)]
INGESTION_POINTS: list[str] = [event.name for event in get_args(IngestionEffect)]
IMPORT_POINTS: list[str] = [event.name for event in get_args(ImportEffect)]
EDIT_POINTS: list[str] = [event.name for event in get_args(EditEffect)]
LEASE_POINTS: list[str] = [event.name for event in get_args(LeaseEffect)]
BATCH_POINTS: list[str] = [
    event.name for event in (*get_args(PreparationEffect), *get_args(ForwardingEffect))
]
OUTGOING_POINTS: list[str] = [OutgoingPublished.name]
STOPPING_POINTS: list[str] = [event.name for event in get_args(StoppingEffect)]
BREAKER_POINTS: list[str] = [event.name for event in get_args(BreakerEffect)]
UPKEEP_POINTS: list[str] = [ChunkPresumed.name]
RETENTION_POINTS: list[str] = [event.name for event in get_args(RetentionEffect)]
ARCHIVE_POINTS: list[str] = [event.name for event in get_args(ArchiveEffect)]
AUDIT_POINTS: list[str] = [event.name for event in get_args(AuditEffect)]
ALL_POINTS = [
    *AUDIT_POINTS,
    *REQUEST_POINTS,
    *IMPORT_POINTS,
    *EDIT_POINTS,
    *INGESTION_POINTS,
    *LEASE_POINTS,
    *BATCH_POINTS,
    *STOPPING_POINTS,
    *BREAKER_POINTS,
    *RETENTION_POINTS,
    *UPKEEP_POINTS,
    *OUTGOING_POINTS,
    *ARCHIVE_POINTS,
]
