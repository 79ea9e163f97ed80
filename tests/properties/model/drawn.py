"""What the rules draw: indices, times, queues, moments, deeds and outcomes."""

from hypothesis import strategies as st

from retrier.domain.ways_out import Act
from retrier.domain.wire import ChannelClosed, Outcome, Refused, Returned, Unknown
from retrier.processor.crash_points import CrashPoint
from tests.support.factories import ERROR_QUEUE

VERBS = [
    "open",
    "claim",
    "move_to_staging",
    "begin",
    "open_window",
    "complete",
    "move_rest",
    "back_off",
    "note_ids",
    "record",
    "take",
    "retry",
]
CALLS = ["publisher.publish", "publisher.probe", "consumer.receive", "consumer.ack", "queues.purge"]
INGESTION = [
    "ingestion.before_record",
    "ingestion.after_record",
    "ingestion.after_ack",
    "before record",
    "after record",
    "consumer.ack",
]
MOMENTS = [
    *map(str, CrashPoint),
    *(f"{when} {verb}" for verb in VERBS[:9] for when in ("before", "after")),
    *(f"{when}{call}" for call in CALLS for when in ("", "after ")),
]
SENDING = [
    CrashPoint.FORWARDING_STAMPED,
    CrashPoint.FORWARDING_PUBLISHED,
    CrashPoint.FORWARDING_ACKED,
    CrashPoint.FORWARDING_SENT_ALONE,
    CrashPoint.FORWARDING_RECORDED,
    CrashPoint.STAGING_COMMITTED,
    CrashPoint.STAGING_PUBLISHED,
]
which = st.integers(0, 30)
several = st.lists(which, min_size=1, max_size=4)
whens = st.sampled_from(["now", "now", "now", "early", "none"])
queues = st.sampled_from(["orders", "orders", "orders", "billing", "gone", ERROR_QUEUE])
acts = st.sampled_from([Act.ARCHIVE, Act.UNARCHIVE, Act.RESOLVE])
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
        "confirm newest",
        "fail newest",
        "archive",
        "resolve",
        "retry again",
        "retry",
        "redirect",
        "database away",
    ]
)
unrisky: st.SearchStrategy[Outcome] = st.sampled_from([Returned("NO_ROUTE"), Refused("full")])
risky: st.SearchStrategy[Outcome] = st.sampled_from([ChannelClosed("406"), Unknown("reset")])
arrived_all_the_same = st.sampled_from(["", "stored"])
