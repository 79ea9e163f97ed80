"""What policies see of a failure."""

from dataclasses import dataclass

from retrier.domain.failed_message import Cause, FailureDetails
from retrier.policy.chains import find_inner


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """What a rule may match and what a reason is derived from; equal facts have equal reasons.

    `failure_reason` is the headers' own word. `crashes` is how often a worker crashed over the
    message (`x-caf-worker-retry`); `rejected` is what it said when it gave up
    (`x-caf-worker-rejected`). `inner` is the type inside an exception that says nothing. `unsent` means that a retry could not be sent: the broker returned or
    refused it. `known` is the reason that the failure has already, where it has not happened anew.
    """

    queue: str
    endpoint: str | None = None
    message_type: str | None = None
    exception_type: str | None = None
    exception_message: str | None = None
    failure_reason: str | None = None
    crashes: int = 0
    rejected: str | None = None
    inner: str | None = None
    unsent: bool = False
    known: str | None = None


def facts_of(details: FailureDetails | Cause) -> Facts:
    """Return what the failure headers say; or the stored cause, which knows of no crashes."""
    worker = details if isinstance(details, FailureDetails) else None
    trace = worker.stack_trace if worker else None
    return Facts(
        queue=details.queue,
        endpoint=details.endpoint,
        message_type=details.message_type,
        exception_type=details.exception_type,
        exception_message=details.exception_message,
        failure_reason=details.failure_reason,
        crashes=worker.crashes if worker else 0,
        rejected=worker.rejected if worker else None,
        inner=find_inner(details.exception_type, details.exception_message, trace),
    )
