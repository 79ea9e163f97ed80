"""Formats tried on failed imports, on the page and over the API, and read again from there."""

from typing import Any

import httpx
import pytest

from retrier.ingestion.parsing import QueueMapping
from tests.support.factories import ERROR_QUEUE, failed_import
from tests.support.raw_messages import raw_properties
from tests.support.web import Web

OURS: dict[str, object] = {"X-Error": "no stock", "X-Origin": "orders", "tenant": "north"}
SECTION = [
    {
        "name": "ours",
        "when": {"header": "X-Error"},
        "queue": "header:X-Origin",
        "message": "header:X-Error",
        "message_id": "body:/id",
        "strip": ["X-Error*"],
    }
]
TEXT = """
ingestion:
  dialects:
    - {name: ours, when: {header: X-Error}, queue: "header:X-Origin", message: "header:X-Error"}
"""
REBUS: dict[str, object] = {"rbs2-source-queue": "packing", "rbs2-error-details": "boom"}


@pytest.fixture(autouse=True)
def queues(web: Web) -> None:
    for queue in ("orders", "packing"):
        web.api.transport.broker.declare(queue)


def keep(web: Web, headers: dict[str, object] = OURS, **changes: Any) -> str:
    before = set(web.api.ids("imports"))
    web.api.receive(
        failed_import(raw=raw_properties(headers), **({"body": b'{"id": 8}'} | changes))
    )
    (found,) = set(web.api.ids("imports")) - before
    return found


def tried(web: Web, **body: Any) -> Any:
    answer: httpx.Response = web.api.http.post("/api/imports/try", json=body)
    assert answer.status_code == 200, answer.text
    return answer.json()


class TestOverTheApi:
    def test_it_tells_what_each_would_be_by_formats_that_are_not_in_force(self, web: Web) -> None:
        import_id = keep(web)

        found = tried(web, dialects=SECTION)

        assert found == {
            "total": 1,
            "messages": [
                {
                    "id": import_id,
                    "error_queue": ERROR_QUEUE,
                    "becomes": "failed message",
                    "dialect": "ours",
                    "queue": "orders",
                    "destination": "orders",
                    "message_id": "8",
                    "exception_message": "no stock",
                    "left_out": ["X-Error"],
                    "goes_back": "the message as it came",
                }
            ],
        }

    def test_nothing_is_changed(self, web: Web) -> None:
        import_id = keep(web)

        tried(web, dialects=SECTION)

        assert web.api.ids("imports") == [import_id]
        assert web.api.ids() == []

    def test_by_the_formats_in_force_it_says_why_one_stays(self, web: Web) -> None:
        keep(web)

        (found,) = tried(web)["messages"]

        assert found["becomes"] == "failed import"
        assert "none of the headers" in found["reason"]

    def test_one_format_can_be_named(self, web: Web) -> None:
        keep(web)

        (found,) = tried(web, dialect="rebus")["messages"]

        assert (found["becomes"], found["dialect"]) == ("failed message", "rebus")
        assert "destination" not in found

    def test_those_of_an_error_queue_can_be_named_and_single_ones(self, web: Web) -> None:
        keep(web)
        other = keep(web, error_queue="dead")

        assert [each["id"] for each in tried(web, error_queue="dead")["messages"]] == [other]
        assert [each["id"] for each in tried(web, ids=[other, "x"])["messages"]] == [other]

    def test_ids_of_which_none_is_an_id_name_none(self, web: Web) -> None:
        keep(web)

        assert tried(web, ids=["x"]) == {"total": 0, "messages": []}

    @pytest.mark.parametrize(
        ("section", "words"),
        [
            ([{"name": "ours"}], "ingestion.dialects[0].when: must be given"),
            ([{**SECTION[0], "name": "rebus"}], "is the name of a format"),
            ([SECTION[0], SECTION[0]], "is there twice"),
            ([{**SECTION[0], "queue": "head:X"}], "must be header:NAME"),
            ([{**SECTION[0], "message": {"from": "header:X", "pattern": "("}}], "pattern"),
        ],
    )
    def test_wrong_formats_are_refused_with_their_place(
        self, web: Web, section: object, words: str
    ) -> None:
        answer = web.api.http.post("/api/imports/try", json={"dialects": section})

        assert answer.status_code == 422
        assert words in answer.json()["detail"]

    def test_a_format_that_nobody_knows_is_refused(self, web: Web) -> None:
        answer = web.api.http.post("/api/imports/try", json={"dialect": "esperanto"})

        assert answer.status_code == 400
        assert "it must be one of" in answer.json()["detail"]


class TestReadAgainAsAFormat:
    def test_one_is_read_as_it(self, web: Web) -> None:
        import_id = keep(web, {"rbs2-source-queue": "packing"})

        answer = web.api.http.post(f"/api/imports/{import_id}/retry", params={"dialect": "rebus"})

        assert answer.json()["failed_message"] == 1
        (found,) = web.api.get("errors")
        assert found["queue_address"] == "packing"

    def test_all_are_read_as_it(self, web: Web) -> None:
        keep(web, {"rbs2-source-queue": "packing"})
        keep(web, {"rbs2-source-queue": "packing"}, body=b"other")

        answer = web.api.http.post("/api/imports/retry", params={"dialect": "rebus"})

        assert answer.json()["failed_message"] == 2

    def test_a_name_that_is_none_leaves_them_with_their_reason(self, web: Web) -> None:
        import_id = keep(web, reason="as it was")

        answer = web.api.http.post("/api/imports/retry", params={"dialect": "esperanto"})

        assert answer.status_code == 400
        assert web.api.get(f"imports/{import_id}")["reason"] == "as it was"


class TestThePage:
    def test_the_list_leads_to_it(self, web: Web) -> None:
        keep(web)

        assert 'href="/imports/try"' in web.get("/imports")

    def test_it_shows_what_each_would_be(self, web: Web) -> None:
        keep(web, REBUS)
        keep(web)

        html = web.get("/imports/try")

        assert "1 of 2 failed imports could be read" in html
        assert "packing" in html
        assert "none of the headers" in html

    def test_it_leads_to_reading_those_again(self, web: Web) -> None:
        import_id = keep(web, {"rbs2-source-queue": "packing"})
        html = web.get("/imports/try", dialect="rebus")
        assert f'name="id" value="{import_id}"' in html

        address = f"/imports/selected?act=again&id={import_id}&dialect=rebus"
        assert "Each is read as" in web.get(address)
        web.post("/imports/selected/again", web.form(address, "/imports/selected/again"))

        assert web.api.ids("imports") == []
        assert [each["queue_address"] for each in web.api.get("errors")] == ["packing"]

    def test_formats_that_are_not_in_force_are_tried_and_not_read_again(self, web: Web) -> None:
        keep(web)

        html = web.post("/imports/try", {"formats": TEXT, "error_queue": ""}).text

        assert "1 of 1 failed import could be read" in html
        assert "These formats are not in force" in html
        assert "Read 1 again" not in html
        assert "header:X-Origin" in html

    def test_wrong_formats_are_told_and_stay_in_the_form(self, web: Web) -> None:
        keep(web)

        answer = web.post("/imports/try", {"formats": "- {name: ours}", "error_queue": ""})

        assert answer.status_code == 422
        assert "ingestion.dialects[0].when: must be given" in answer.text
        assert "- {name: ours}" in answer.text

    @pytest.mark.parametrize("text", ["[" * 60, "a: &a [1]\nb: *a", "\t:", "5", "{dialects: 5}"])
    def test_what_is_no_list_of_formats_is_refused(self, web: Web, text: str) -> None:
        assert web.post("/imports/try", {"formats": text}).status_code == 422

    def test_an_empty_text_is_no_format(self, web: Web) -> None:
        keep(web, REBUS)

        html = web.post("/imports/try", {"formats": ""}).text

        assert "1 of 1 failed import could be read" in html

    def test_what_messages_say_is_shown_harmlessly(self, web: Web) -> None:
        keep(web, {**REBUS, "rbs2-error-details": "<script>x</script>", "<b>": "\u202e"})

        html = web.get("/imports/try")

        assert "<script>x" not in html
        assert "\u202e" not in html

    def test_without_failed_imports_it_says_so(self, web: Web) -> None:
        assert "There is nothing to try them on" in web.get("/imports/try")

    def test_of_many_the_first_are_shown_and_all_that_were_tried_can_be_read(
        self, web: Web
    ) -> None:
        raw = raw_properties(REBUS)
        web.api.receive(*(failed_import(raw=raw, body=b"%d" % each) for each in range(60)))

        html = web.get("/imports/try")

        assert "60 of 60 failed imports could be read" in html
        assert "50 of them are shown" in html
        assert html.count('name="id"') == 60

    def test_a_text_that_is_too_long_is_refused(self, web: Web) -> None:
        assert web.post("/imports/try", {"formats": "#" * 70_000}).status_code == 413


def test_a_format_of_the_settings_is_one_to_read_them_as(web: Web) -> None:
    web.api.mappings[ERROR_QUEUE] = QueueMapping(queue=ERROR_QUEUE)

    assert '<option value="ours">' not in web.get("/imports/try")
    assert "<option>rebus</option>" in web.get("/imports/try")
