"""What every stage is given: parameters, database, broker, lease, clock, and where events go."""

from collections.abc import Callable, Mapping
from dataclasses import field
from datetime import timedelta

from retrier.domain.breakers import BreakerRules
from retrier.domain.values import dataclass
from retrier.policy.policy_set import WAITING, Judge
from retrier.processor.broker import Broker, Progress
from retrier.processor.lease import HolderContext
from retrier.transport.queue_names import Alike, OwnQueues, are_same


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryParameters:
    """How batches are staged and forwarded.

    A window has at most `window` messages and `window_bytes` bytes, and is what a crash can send
    twice. `session_id` is also the staging id of probes. With `keep_transient` a retry lasts only
    as long as its message would have; else it is persistent. `drop_headers` has patterns of headers
    that messages from an error queue are sent back without. `alike` is how the broker compares names.
    """

    staging_queue: str
    error_queues: tuple[str, ...]
    installation_id: str
    session_id: str
    window: int = 200
    window_bytes: int = 16 * 1024 * 1024
    drain_timeout: timedelta = timedelta(seconds=2)
    marker_timeout: timedelta = timedelta(seconds=5)
    redeclare_pause: timedelta = timedelta(seconds=1)
    idle_wait: timedelta = timedelta(seconds=30)
    keep_transient: bool = False
    drop_headers: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    alike: Alike = are_same

    @property
    def prefetch(self) -> int:
        """How many copies may be unacknowledged: one window in flight, one ready, one arriving.

        With two, copies of the next window arrive only after a window is recorded and acked, and
        the broker idles until its retries are made. Copies are small: they have no body.
        """
        return 3 * self.window

    def acknowledgement_queue(self, error_queue: str) -> str:
        """Return the queue to which the consumer of a retry sends its confirmation.

        That is the queue the failure came from, if it is still ingested, else the first that is:
        nobody would read a confirmation on a queue that is not ingested.
        """
        known = error_queue in self.error_queues or not self.error_queues
        return error_queue if known else self.error_queues[0]

    @property
    def closed_to_retries(self) -> OwnQueues:
        """Queues that no retry may go to: it would be ingested again, or dropped as no copy."""
        return OwnQueues((*self.error_queues, self.staging_queue), self.alike)


class BreakerWatch:
    """Whether breakers are to be looked at.

    Without a rule for any, and with all of them closed, the database is asked nothing about them.
    Whether one is not closed (`may_hold`) is noted from queries that are made anyway.
    """

    def __init__(self, rules: Callable[[], BreakerRules] = BreakerRules) -> None:
        """`rules` returns those that are in force."""
        self.rules = rules
        self.may_hold = False

    @property
    def is_used(self) -> bool:
        """Whether a breaker is configured, or not closed."""
        rules = self.rules()
        return self.may_hold or rules.default is not None or bool(rules.rules)


def without_bound() -> int | None:
    """Return no bound: as many automatic retries a second as can be sent."""
    return None


@dataclass(frozen=True, slots=True, kw_only=True)
class StageContext(HolderContext):
    """Everything a stage needs; built once by the composition root.

    `per_second` gives how many automatic retries may be sent a second, now: it is a setting that
    may change while the process runs. None means any number.
    """

    broker: Broker
    retries: RetryParameters
    progress: Progress
    breakers: BreakerWatch = field(default_factory=BreakerWatch)
    judge: Judge = WAITING
    per_second: Callable[[], int | None] = without_bound

    def seconds_since(self, began: float) -> float:
        """Return how long ago a moment of the monotonic clock was, to the millisecond."""
        return round(self.clock.monotonic() - began, 3)
