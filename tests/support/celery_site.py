"""What the API of a service says of the tasks of Celery workers."""

from typing import Any

from tests.support.celery_workers import DEADLINE
from tests.support.service import Service
from tests.support.waiting import wait_until


def messages(service: Service) -> dict[str, dict[str, Any]]:
    """Return the messages by the id of their task; none while the service still makes its tables."""
    with service.http as http:
        answer = http.get("/api/errors")
    found = answer.json() if answer.is_success else []
    return {each["message_id"]: each for each in found}


def wait_for_status(service: Service, status: str, *tasks: str) -> None:
    def statuses() -> list[str]:
        found = messages(service)
        return [found[task]["status"] for task in tasks if task in found]

    wait_until(lambda: statuses() == [status] * len(tasks), DEADLINE, f"{tasks} are not {status}")


def retry_all(service: Service) -> None:
    with service.http as http:
        assert http.post("/api/errors/retry/all").status_code == 202
