"""Under which categories and names ServiceControl's clients know what happens."""

import pytest

from retrier.api.events import type_of


@pytest.mark.parametrize(
    ("kind", "category", "name"),
    [
        ("message_failed", "MessageFailures", "MessageFailed"),
        ("message_archived", "MessageFailures", "FailedMessageArchived"),
        ("message_unarchived", "MessageFailures", "FailedMessageUnArchived"),
        ("message_resolved", "MessageFailures", "MessageFailureResolvedManually"),
        ("retry_returned", "MessageFailures", "MessagesSubmittedForRetryFailed"),
        ("retry_skipped", "MessageFailures", "RetrySkipped"),
    ],
)
def test_an_event_of_a_message_is_a_message_failure(kind: str, category: str, name: str) -> None:
    assert type_of(kind, is_of_message=True) == (category, name)


@pytest.mark.parametrize(
    ("kind", "category", "name"),
    [
        ("redirect_created", "MessageRedirects", "MessageRedirectCreated"),
        ("redirect_changed", "MessageRedirects", "MessageRedirectChanged"),
        ("redirect_deleted", "MessageRedirects", "MessageRedirectRemoved"),
        ("retry_asked", "Recoverability", "MessagesSubmittedForRetry"),
        ("archive_completed", "Recoverability", "FailedMessageGroupArchived"),
        ("breaker_opened", "Recoverability", "BreakerOpened"),
    ],
)
def test_what_is_of_no_single_message_leads_to_none(kind: str, category: str, name: str) -> None:
    assert type_of(kind, is_of_message=False) == (category, name)
