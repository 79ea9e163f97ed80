"""The operator's client: the demo uses the HTTP API of the service, as any client does."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from threading import Event

import httpx

from retrier.errors import RetrierError

_POLL = 0.1
_PAGE = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """One failure group as the API shows it."""

    group_id: str
    title: str
    count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Listed:
    """One failed message as the API lists it."""

    message_id: str
    status: str
    attempts: int


class Client:
    """Reads lists, asks for retries, and waits for conditions, for a bounded time."""

    def __init__(self, url: str, stop: Event) -> None:
        self._http = httpx.Client(base_url=url, timeout=10, headers={"X-Retrier-User": "demo"})
        self._stop = stop

    def list_groups(self) -> tuple[Group, ...]:
        """Return the groups by cause, the largest first."""
        found = self._http.get("/api/recoverability/groups").json()
        groups = (Group(group_id=g["id"], title=g["title"], count=g["count"]) for g in found)
        return tuple(sorted(groups, key=lambda group: -group.count))

    def retry_group(self, group_id: str) -> str:
        """Ask for a retry of a group; return the operation's id."""
        answer = self._http.post(f"/api/recoverability/groups/{group_id}/errors/retry")
        return str(answer.json()["operation_id"])

    def is_complete(self, operation_id: str) -> bool:
        """Say whether an operation is complete."""
        return bool(
            self._http.get(f"/api/operations/{operation_id}").json()["state"] == "completed"
        )

    def list_messages(self) -> tuple[Listed, ...]:
        """Return all failed messages, in any status."""
        found: list[Listed] = []
        for page in range(1, 1000):
            answer = self._http.get("/api/errors", params={"page": page, "per_page": _PAGE})
            found += [_listed(item) for item in answer.json()]
            if len(found) >= int(answer.headers["Total-Count"]):
                break
        return tuple(found)

    def wait_for(self, what: str, is_so: Callable[[], bool], seconds: float) -> None:
        """Wait until `is_so` holds. Raises RetrierError if it takes too long or is interrupted."""
        for _ in range(int(seconds / _POLL)):
            if is_so():
                return
            if self._stop.wait(_POLL):
                raise RetrierError("interrupted")
        raise RetrierError(f"not within {seconds:g} s: {what}")

    def close(self) -> None:
        """Close the connections."""
        self._http.close()


def find_url(log: Path) -> str | None:
    """Return the URL at which the service listens, from its log; None before it listens."""
    for line in log.read_text().splitlines():
        if '"api.listening"' in line:
            fields = json.loads(line)
            return f"http://{fields['host']}:{fields['port']}"
    return None


def is_ready(url: str) -> bool:
    """Say whether all parts of the service are ready."""
    return httpx.get(f"{url}/health/ready", timeout=10).is_success


def _listed(item: dict[str, object]) -> Listed:
    return Listed(
        message_id=str(item["message_id"]),
        status=str(item["status"]),
        attempts=int(str(item["number_of_processing_attempts"])),
    )
