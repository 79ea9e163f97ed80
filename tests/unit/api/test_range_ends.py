"""The end of a range of times includes its second, as lists show no parts of one."""

from datetime import UTC, datetime

from retrier.store.engine.database import Database
from tests.support.api import Api
from tests.support.command_line import CommandLine
from tests.support.factories import failure
from tests.support.web import Web

WITHIN = datetime(2026, 5, 5, 10, 0, 0, 500_000, tzinfo=UTC)
AFTER = WITHIN.replace(second=1, microsecond=0)


def test_what_is_shown_can_be_selected_on_each_face(database: Database) -> None:
    cli = CommandLine(database)
    api, web = cli.api, Web(cli.api)
    shown, _ = api.receive(failure(time_of_failure=WITHIN), failure(time_of_failure=AFTER))
    end = "2026-05-05T10:00:00Z"

    assert api.ids(failed_to=end) == [shown]
    assert _counted(api, end) == 1
    assert cli.lines("errors", "list", "--failed-to", end, "--ids") == [shown]
    page = web.get("/messages", failed_to=end)
    assert (f"message/{shown}" in page, page.count("data-row=")) == (True, 1)


def _counted(api: Api, end: str) -> object:
    body = {"act": "archive", "selection": {"failed_to": end}}
    return api.http.post("/api/archive_operations/preview", json=body).json()["total"]


def test_a_fraction_is_exact(api: Api) -> None:
    api.receive(failure(time_of_failure=WITHIN))

    assert api.ids(failed_to="2026-05-05T10:00:00.499999Z") == []
    assert _counted(api, "2026-05-05T10:00:00.499999Z") == 0


def test_a_range_within_one_second_is_no_turned_one(api: Api) -> None:
    (shown,) = api.receive(failure(time_of_failure=WITHIN))
    second = {"failed_from": "2026-05-05T10:00:00.4Z", "failed_to": "2026-05-05T10:00:00Z"}

    assert api.ids(**second) == [shown]


def test_a_range_of_last_changes_includes_its_last_second(api: Api) -> None:
    (shown,) = api.receive(failure())
    changed = str(api.get("errors")[0]["last_modified"]).partition(".")[0] + "Z"

    assert api.ids(modified=f"{changed}...{changed}") == [shown]
