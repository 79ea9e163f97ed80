"""Whether the service is ready, part by part, each with its reason. Written and read by threads."""

from collections.abc import Callable, Mapping
from threading import Lock

Readiness = Mapping[str, tuple[bool, str]]
"""For each part whether it is ready, and why not (or a word on how it is)."""

Look = Callable[[], tuple[bool, str]]


class ReadinessBoard:
    """Collects what the parts say of themselves."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._looks: dict[str, Look] = {}

    def put(self, part: str, *, ready: bool, reason: str) -> None:
        """Note how a part is, until it is noted anew."""
        self.watch(part, lambda: (ready, reason))

    def watch(self, part: str, look: Look) -> None:
        """Ask a part itself whenever somebody wants to know."""
        with self._lock:
            self._looks[part] = look

    def read(self) -> Readiness:
        """Return how all parts are."""
        with self._lock:
            looks = dict(self._looks)
        return {part: look() for part, look in looks.items()}
