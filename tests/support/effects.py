"""The events that follow an effect: at each of them a test kills a process."""

from typing import get_args

from retrier.events.forwarding import ForwardingEffect
from retrier.events.ingestion import IngestionEffect
from retrier.events.outgoing import OutgoingPublished
from retrier.events.preparation import PreparationEffect
from retrier.events.processor import LeaseEffect
from retrier.events.service import RequestEffect

REQUEST_POINTS: list[str] = [event.name for event in get_args(RequestEffect)]
INGESTION_POINTS: list[str] = [event.name for event in get_args(IngestionEffect)]
LEASE_POINTS: list[str] = [event.name for event in get_args(LeaseEffect)]
BATCH_POINTS: list[str] = [
    event.name for event in (*get_args(PreparationEffect), *get_args(ForwardingEffect))
]
OUTGOING_POINTS: list[str] = [OutgoingPublished.name]
ALL_POINTS = [
    *REQUEST_POINTS,
    *INGESTION_POINTS,
    *LEASE_POINTS,
    *BATCH_POINTS,
    *OUTGOING_POINTS,
]
