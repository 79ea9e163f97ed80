"""The destinations of error queues, as `retrier check` looks at them."""

from collections.abc import Iterator

from retrier.app.check_result import CheckResult
from retrier.settings import Settings
from retrier.transport.seam import Queues

_MISSING = (
    "warning: it does not exist, and retries to it fail. Make it, or name another destination"
)


def check_destinations(settings: Settings, queues: Queues) -> Iterator[CheckResult]:
    """Look whether each destination of the settings exists; declare none.

    One that is missing is a warning: `run` takes failures all the same, and the retries to it are
    reverted. Raises BrokerUnavailable.
    """
    named = {each.destination for each in settings.ingestion.error_queues}
    for queue in sorted(each for each in named if each is not None):
        text = _MISSING if queues.look(queue) is None else "ok"
        yield CheckResult(name=f"destination {queue}", ok=True, text=text)
