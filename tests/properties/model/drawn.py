"""What the rules draw: indices, times, queues, moments, deeds and outcomes."""

from hypothesis import strategies as st

from retrier.domain.archive_operation import Act
from retrier.domain.retry_operation import Cancel, Order, Pause, Resume
from retrier.domain.wire import ChannelClosed, Outcome, Refused, Returned, Unknown
from retrier.events.processor import (
    BatchReleased,
    BatchStaged,
    CopiesAcked,
    CopiesPublished,
    OperationCancelled,
    RetrySentAlone,
    WindowRecorded,
    WindowSent,
    WindowStamped,
)
from tests.support.effects import BATCH_POINTS
from tests.support.factories import ERROR_QUEUE

VERBS = [
    "cut_batch",
    "claim_messages",
    "move_to_staging",
    "begin_forwarding",
    "open_window",
    "complete_batch",
    "move_rest",
    "back_off_batch",
    "release_batch",
    "record_staging_ids",
    "hold_back",
    "turn_breakers",
    "record_received",
    "do_at_once",
    "write_down",
    "work_off",
    "retry_pending",
    "revive",
    "declare_dead",
    "ask_edit",
    "release_stream",
]
CALLS = ["publisher.publish", "publisher.probe", "consumer.receive", "consumer.ack", "queues.purge"]
INGESTION = [
    "ingestion.before_record",
    "ingestion.after_record",
    "ingestion.after_ack",
    "before record_received",
    "after record_received",
    "consumer.ack",
]
MOMENTS = [
    *BATCH_POINTS,
    BatchReleased.name,
    OperationCancelled.name,
    *(f"{when} {verb}" for verb in VERBS[:12] for when in ("before", "after")),
    *(f"{when}{call}" for call in CALLS for when in ("", "after ")),
]
SENDING = [
    WindowStamped.name,
    WindowSent.name,
    CopiesAcked.name,
    RetrySentAlone.name,
    WindowRecorded.name,
    BatchStaged.name,
    CopiesPublished.name,
]
which = st.integers(0, 30)
several = st.lists(which, min_size=1, max_size=4)
whens = st.sampled_from(["now", "now", "now", "early", "none"])
queues = st.sampled_from(["orders", "orders", "orders", "billing", "gone", ERROR_QUEUE])
streams = st.sampled_from(["1", "1", "2"])
orders: st.SearchStrategy[Order] = st.sampled_from([Pause(), Resume(), Cancel(), Cancel()])
acts = st.sampled_from([Act.ARCHIVE, Act.UNARCHIVE, Act.RESOLVE])
BETWEEN = [
    "fail anew",
    "fail newest",
    "confirm any",
    "confirm newest",
    "archive",
    "take back",
    "resolve",
    "retry again",
    "retry",
    "retry patched",
    "redirect",
    "pause",
    "resume",
    "cancel",
    "open breaker",
    "close breaker",
    "let breakers pass",
    "release",
    "declare dead",
    "revive",
    "edit",
]
"""Deeds of others, who may commit between the processor's look at messages and its claims."""
deeds = st.sampled_from(
    [
        "die",
        "lose connections",
        "lose lease",
        "lose lease and hear of it",
        "purge staging",
        "delete staging",
        "double copies",
        "strange copies",
        "database away",
        *BETWEEN,
    ]
)
unrisky: st.SearchStrategy[Outcome] = st.sampled_from([Returned("NO_ROUTE"), Refused("full")])
risky: st.SearchStrategy[Outcome] = st.sampled_from([ChannelClosed("406"), Unknown("reset")])
arrived_all_the_same = st.sampled_from(["", "stored"])
