"""Failed imports over HTTP: listed, shown, read again, sent back, deleted."""

import json
from base64 import b64decode, b64encode
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from sqlalchemy import select, update

from retrier.domain.failed_imports import ON_ITS_WAY
from retrier.domain.failed_message import FailedImport
from retrier.domain.wire import ChannelClosed, Edit, Refused, Unknown
from retrier.errors import BrokerUnavailable
from retrier.ingestion.parsing import QueueMapping
from retrier.store.import_acts import stamp_import
from retrier.store.schema import failed_import_sends
from retrier.transport.rabbitmq.properties import AmqpPropertyCodec
from retrier.transport.sender import ANSWER_WITHIN, HAND_OVER_WITHIN
from tests.support.amqp_bytes import header, properties, string
from tests.support.api import Api
from tests.support.bench import STAGING
from tests.support.factories import ERROR_QUEUE, FAILED_AT, failed_import
from tests.support.raw_messages import raw_properties as encoded
from tests.support.script import to_queue

WITH_DESTINATION = QueueMapping(queue=ERROR_QUEUE, destination="orders")
POISON = properties(headers=[header("Shop.Tenant", string("north")), b"\x03badZ\x00"])
NOBODY = "12345678-1234-4234-8234-123456789abc"


@pytest.fixture(autouse=True)
def queues(api: Api) -> None:
    """Have queues to send to."""
    for queue in ("orders", ERROR_QUEUE, STAGING):
        api.transport.broker.declare(queue)


def keep(api: Api, *imports: FailedImport) -> list[str]:
    """Let imports come; return the ids of all there are, the oldest first."""
    api.receive(*imports)
    return list(reversed(api.ids("imports")))


def keep_one(api: Api, **changes: Any) -> str:
    (import_id,) = keep(api, failed_import(**changes))
    return import_id


def send(api: Api, import_id: str, to: str = "orders", **more: Any) -> Any:
    body = json.dumps({"to": to, **more})
    headers = {"Content-Type": "application/json"}
    return api.http.post(f"/api/imports/{import_id}/send", content=body, headers=headers)


def read_again(api: Api, import_id: str) -> Any:
    return api.http.post(f"/api/imports/{import_id}/retry")


def detail(answer: Any) -> str:
    return str(answer.json()["detail"])


def kinds(api: Api) -> list[str]:
    found = api.http.get("/api/eventlogitems", params={"routine": "yes"}).json()
    return [each["event_type"] for each in found]


def arrived(api: Api, queue: str = "orders") -> list[tuple[bytes, bytes]]:
    return [(each.raw, each.body) for each in api.transport.broker.holds(queue)]


def in_doubt(api: Api, import_id: str, to: str = "orders") -> None:
    """Let a process die between its stamp and the record, long enough ago."""
    stamp_import(api.db, import_id, to, again=False, who="ada")
    with api.db.engine.begin() as conn:
        since = conn.execute(select(failed_import_sends.c.sending_since)).scalar_one()
        conn.execute(update(failed_import_sends).values(sending_since=since - ON_ITS_WAY))


class TestAList:
    def test_shows_reason_sizes_and_state(self, api: Api) -> None:
        keep_one(api, raw=b"\xff\x00\x01", body=b"12345", reason="it has no queue")

        (shown,) = api.get("imports")

        assert shown == {
            "id": shown["id"],
            "error_queue": ERROR_QUEUE,
            "reason": "it has no queue",
            "received_at": "2026-05-04T12:00:00.000000Z",
            "state": "kept",
            "properties_size": 3,
            "body_size": 5,
        }

    def test_has_the_newest_first_and_comes_in_pages(self, api: Api) -> None:
        times = [FAILED_AT + timedelta(minutes=each) for each in range(3)]
        api.receive(*(failed_import(received_at=each, reason=str(each)) for each in times))

        pages = [
            api.http.get("/api/imports", params={"per_page": 2, "page": page}) for page in (1, 2)
        ]

        reasons = [[each["reason"] for each in page.json()] for page in pages]
        assert reasons == [[str(times[2]), str(times[1])], [str(times[0])]]
        assert {page.headers["Total-Count"] for page in pages} == {"3"}

    def test_can_have_the_oldest_first(self, api: Api) -> None:
        """What is sent back in this order arrives in the order in which it came."""
        times = [FAILED_AT + timedelta(minutes=each) for each in range(3)]
        api.receive(*(failed_import(received_at=each, reason=str(each)) for each in times))

        shown = api.get("imports", direction="asc", per_page=2)

        assert [each["reason"] for each in shown] == [str(times[0]), str(times[1])]

    def test_has_the_order_in_which_a_batch_came(self, api: Api) -> None:
        api.receive(*(failed_import(reason=str(each)) for each in range(20)))

        shown = api.get("imports", direction="asc")

        assert [each["reason"] for each in shown] == [str(each) for each in range(20)]

    def test_can_be_of_one_error_queue(self, api: Api) -> None:
        keep(api, failed_import(error_queue="a"), failed_import(error_queue="b"))

        (shown,) = api.get("imports", error_queue="b")

        assert shown["error_queue"] == "b"

    def test_finds_an_id_by_its_beginning(self, api: Api) -> None:
        import_id = keep_one(api)

        assert api.ids("imports", id_prefix=import_id[:8]) == [import_id]
        assert api.ids("imports", id_prefix="00000000") == []

    def test_is_counted_without_its_items(self, api: Api) -> None:
        keep(api, failed_import(), failed_import())

        assert api.http.head("/api/imports").headers["Total-Count"] == "2"


class TestOneImport:
    def test_shows_what_can_be_read_of_its_headers_and_its_bytes(self, api: Api) -> None:
        raw = encoded({"Shop.Tenant": "north", "n": 7}, message_id="9", content_type="text/plain")
        import_id = keep_one(api, raw=raw, body="größe".encode())

        shown = api.get(f"imports/{import_id}")

        assert shown["headers"] == {"Shop.Tenant": "north", "n": 7}
        assert shown["properties"] == {"message_id": "9", "content_type": "text/plain"}
        assert b64decode(shown["raw_properties"]["content"]) == raw
        assert shown["body"] == {"encoding": "utf-8", "content": "größe", "is_whole": True}
        assert "unreadable" not in shown

    def test_shows_the_headers_in_front_of_what_cannot_be_read(self, api: Api) -> None:
        import_id = keep_one(api, raw=POISON)

        shown = api.get(f"imports/{import_id}")

        assert shown["headers"] == {"Shop.Tenant": "north"}
        assert "no field type 'Z'" in shown["unreadable"]
        assert b64decode(shown["raw_properties"]["content"]) == POISON

    @pytest.mark.parametrize("raw", [b"", b"\xff", b"\xff\xff", b"\xfc\x00" + b"\xff" * 200])
    def test_shows_bytes_that_are_no_properties_at_all(self, api: Api, raw: bytes) -> None:
        import_id = keep_one(api, raw=raw)

        shown = api.get(f"imports/{import_id}")

        assert b64decode(shown["raw_properties"]["content"]) == raw
        assert shown["unreadable"]

    def test_shows_a_body_that_is_no_text_in_base64(self, api: Api) -> None:
        import_id = keep_one(api, body=b"\xff\x00")

        shown = api.get(f"imports/{import_id}")["body"]

        assert shown == {
            "encoding": "base64",
            "content": b64encode(b"\xff\x00").decode(),
            "is_whole": True,
        }

    def test_shows_the_beginning_of_a_large_body_and_has_all_of_it_apart(self, api: Api) -> None:
        # A sign of two bytes lies across the end of what is shown.
        body = b"x" + "ö".encode() * 1_000_000
        import_id = keep_one(api, body=body)

        shown = api.get(f"imports/{import_id}")
        whole = api.http.get("/api" + shown["body_url"])

        assert shown["body"]["content"] == "x" + "ö" * 8191
        assert shown["body"]["is_whole"] is False
        assert whole.content == body
        assert whole.headers["Content-Disposition"] == "attachment"
        assert whole.headers["Content-Type"] == "application/octet-stream"

    def test_may_have_no_body(self, api: Api) -> None:
        import_id = keep_one(api, body=b"")

        shown = api.get(f"imports/{import_id}")["body"]
        assert shown == {"encoding": "utf-8", "content": "", "is_whole": True}
        assert api.http.get(f"/api/imports/{import_id}/body").status_code == 204

    @pytest.mark.parametrize("import_id", [NOBODY, "no-id", "%20"])
    @pytest.mark.parametrize("path", ["", "/body"])
    def test_may_be_unknown(self, api: Api, import_id: str, path: str) -> None:
        assert api.http.get(f"/api/imports/{import_id}{path}").status_code == 404


class TestAnImportThatIsNoneAnyMore:
    def test_says_where_it_was_sent_and_by_whom(self, api: Api) -> None:
        import_id = keep_one(api)
        send(api, import_id)

        answer = api.http.get(f"/api/imports/{import_id}")

        assert answer.status_code == 404
        assert f"{import_id} from {ERROR_QUEUE} was sent to orders, as it came." in detail(answer)
        assert " By " in detail(answer)

    def test_says_that_it_was_deleted_whatever_is_asked_of_it(self, api: Api) -> None:
        import_id = keep_one(api)
        api.http.delete(f"/api/imports/{import_id}")

        answers = [
            api.http.get(f"/api/imports/{import_id}/body"),
            api.http.get(f"/api/imports/{import_id[:8]}"),
            api.http.delete(f"/api/imports/{import_id}"),
            read_again(api, import_id),
            send(api, import_id),
        ]

        assert {each.status_code for each in answers} == {404}
        assert all("was deleted" in detail(each) for each in answers)

    def test_names_the_failed_message_that_it_is_now(self, api: Api) -> None:
        import_id = keep_one(api)
        api.mappings[ERROR_QUEUE] = WITH_DESTINATION
        read_again(api, import_id)

        answer = api.http.get(f"/api/imports/{import_id}").json()

        (message_id,) = api.ids()
        assert answer["failed_message_id"] == message_id
        assert message_id in answer["detail"]


class TestAnImportReadAgain:
    def test_becomes_a_failed_message_with_the_mapping_of_today(self, api: Api) -> None:
        import_id = keep_one(api, body=b"order 7")
        api.mappings[ERROR_QUEUE] = WITH_DESTINATION

        answer = read_again(api, import_id)

        (message,) = api.get("errors")
        assert answer.status_code == 202
        assert answer.json() == {
            "reimported": 1,
            "failed_message": 1,
            "stored_before": 0,
            "confirmation": 0,
            "own_copy": 0,
            "failed_message_id": message["id"],
            "kept": [],
            "skipped": [],
        }
        assert (message["queue_address"], message["failure_reason"]) == (
            "orders",
            "no failure headers",
        )
        assert api.http.get(f"/api/messages/{message['id']}/body").content == b"order 7"
        assert api.get("imports") == []

    def test_stays_an_import_with_the_reason_of_today(self, api: Api) -> None:
        import_id = keep_one(api, reason="a reason of yesterday")

        answer = read_again(api, import_id)

        (shown,) = api.get("imports")
        assert answer.status_code == 202
        assert answer.json()["reimported"] == 0
        assert answer.json()["kept"] == [{"reason": shown["reason"], "count": 1}]
        assert shown["reason"].startswith("none of the headers that say where it failed is there")

    def test_can_be_given_a_destination_of_its_own(self, api: Api) -> None:
        one, other = keep(api, failed_import(body=b"1"), failed_import(body=b"2"))

        answer = api.http.post(f"/api/imports/{one}/retry", params={"destination": "orders"})

        assert answer.json()["failed_message"] == 1
        assert [each["queue_address"] for each in api.get("errors")] == ["orders"]
        assert api.ids("imports") == [other]
        assert read_again(api, other).json()["reimported"] == 0

    def test_can_be_given_one_together_with_all_of_its_error_queue(self, api: Api) -> None:
        keep(api, failed_import(body=b"1"), failed_import(body=b"2"))

        answer = api.http.post("/api/imports/retry", params={"destination": "orders"})

        assert answer.json()["failed_message"] == 2
        assert {each["queue_address"] for each in api.get("errors")} == {"orders"}

    @pytest.mark.parametrize("path", ["imports/retry", f"imports/{NOBODY}/retry"])
    @pytest.mark.parametrize("queue", [ERROR_QUEUE, STAGING, "q" * 256])
    def test_is_given_no_destination_that_takes_no_retry(
        self, api: Api, path: str, queue: str
    ) -> None:
        answer = api.http.post(f"/api/{path}", params={"destination": queue})

        assert answer.status_code == 400
        assert detail(answer).startswith("Nothing can be sent there: ")

    def test_is_told_who_read_it(self, api: Api) -> None:
        import_id = keep_one(api)
        api.mappings[ERROR_QUEUE] = WITH_DESTINATION

        api.http.post(f"/api/imports/{import_id}/retry", headers={"X-Retrier-User": "ada"})

        event = api.get("eventlogitems")[0]
        assert event["event_type"] == "ImportReadAgain"
        assert event["who"].startswith("ada")
        assert import_id in event["description"]
        assert event["related_to"] == [f"/message/{api.get('errors')[0]['id']}"]

    def test_may_be_unknown(self, api: Api) -> None:
        assert read_again(api, NOBODY).status_code == 404
        assert read_again(api, "no-id").status_code == 404

    def test_is_refused_while_it_is_in_doubt(self, api: Api) -> None:
        """As a failed message it would be retried, and be handled twice."""
        import_id = keep_one(api)
        in_doubt(api, import_id)
        api.mappings[ERROR_QUEUE] = WITH_DESTINATION

        answer = read_again(api, import_id)

        assert answer.status_code == 409
        assert "may have been sent" in detail(answer)
        assert api.get("errors") == []


class TestAllImportsReadAgain:
    def test_become_what_they_are_today(self, api: Api) -> None:
        keep(api, failed_import(), failed_import(error_queue="other"), failed_import(raw=POISON))
        api.mappings[ERROR_QUEUE] = WITH_DESTINATION

        answer = api.http.post("/api/imports/retry").json()

        assert (answer["reimported"], answer["failed_message"]) == (1, 1)
        assert sum(each["count"] for each in answer["kept"]) == 2
        assert len(api.get("imports")) == 2
        assert api.get("ledger")["deliveries"]["difference"] == 0

    def test_can_be_those_of_one_error_queue(self, api: Api) -> None:
        keep(api, failed_import(error_queue="a"), failed_import(error_queue="b"))
        api.mappings |= {
            name: QueueMapping(queue=name, destination="orders") for name in ("a", "b")
        }

        answer = api.http.post("/api/imports/retry?error_queue=a").json()

        assert answer["reimported"] == 1
        assert [each["error_queue"] for each in api.get("imports")] == ["b"]

    def test_leave_out_and_count_what_is_in_doubt(self, api: Api) -> None:
        first, _ = keep(api, failed_import(), failed_import())
        in_doubt(api, first)
        api.mappings[ERROR_QUEUE] = WITH_DESTINATION

        answer = api.http.post("/api/imports/retry").json()

        assert answer["reimported"] == 1
        assert [each["count"] for each in answer["skipped"]] == [1]
        assert api.ids("imports") == [first]

    def test_may_be_none(self, api: Api) -> None:
        assert api.http.post("/api/imports/retry").json()["reimported"] == 0


class TestAnImportSentBack:
    def test_arrives_byte_for_byte_and_is_gone_here(self, api: Api) -> None:
        raw = encoded({"x-delivery-count": 3, "x": "1"}, message_id="9", expiration="1000")
        import_id = keep_one(api, raw=raw, body=b"\x00\xff")

        answer = send(api, import_id)

        assert (answer.status_code, answer.json()) == (202, {"sent_to": "orders"})
        persistent = AmqpPropertyCodec().edit(raw, Edit(set_fields={"delivery_mode": 2}))
        assert arrived(api) == [(persistent, b"\x00\xff")]
        assert api.get("imports") == []
        assert kinds(api)[:2] == ["ImportSent", "ImportStamped"]

    def test_arrives_byte_for_byte_though_nobody_can_read_it(self, api: Api) -> None:
        import_id = keep_one(api, raw=POISON)

        send(api, import_id)

        assert arrived(api) == [(POISON, b"?")]

    def test_leaves_out_what_would_bring_copies_of_it_elsewhere(self, api: Api) -> None:
        import_id = keep_one(api, raw=encoded({"CC": ["error"], "BCC": ["x"], "a": "b"}))

        send(api, import_id)

        ((raw, _),) = arrived(api)
        assert api.transport.codec.read(raw).headers == {"a": "b"}

    @pytest.mark.parametrize(("user", "kept"), [("guest", True), ("app", False)])
    def test_leaves_out_a_user_that_the_broker_would_refuse(
        self, api: Api, user: str, *, kept: bool
    ) -> None:
        import_id = keep_one(api, raw=encoded({}, user_id=user, message_id="9"))

        send(api, import_id)

        ((raw, _),) = arrived(api)
        read = api.transport.codec.read(raw).fields
        assert ("user_id" in read, read["message_id"]) == (kept, "9")

    @pytest.mark.parametrize(
        "to", [ERROR_QUEUE, STAGING, f" {STAGING} ", "x" * 256, "a\0b", "\ud800"]
    )
    def test_is_never_sent_to_a_queue_of_our_own_or_to_none(self, api: Api, to: str) -> None:
        import_id = keep_one(api)

        answer = send(api, import_id, to)

        assert answer.status_code == 400, answer.text
        assert api.get("imports")[0]["state"] == "kept"
        assert arrived(api, ERROR_QUEUE) == []

    @pytest.mark.parametrize("body", [{}, {"to": ""}, {"to": "  "}])
    def test_names_a_queue(self, api: Api, body: dict[str, str]) -> None:
        import_id = keep_one(api)

        assert api.http.post(f"/api/imports/{import_id}/send", json=body).status_code == 400

    def test_may_be_unknown(self, api: Api) -> None:
        assert send(api, NOBODY).status_code == 404
        assert send(api, "no-id").status_code == 404

    def test_to_a_queue_that_does_not_exist_stays_here_and_is_not_in_doubt(self, api: Api) -> None:
        import_id = keep_one(api)

        answer = send(api, import_id, "nowhere")

        assert answer.status_code == 409
        assert "the queue nowhere does not exist" in detail(answer)
        assert api.get("imports")[0]["state"] == "kept"
        assert kinds(api)[0] == "ImportNotSent"

    def test_the_advice_is_about_what_was_refused(self, api: Api) -> None:
        import_id = keep_one(api)
        missing = send(api, import_id, "nowhere").json()["advice"]
        api.transport.cue(Refused("too large"), when=to_queue("orders"))
        refused = send(api, import_id).json()["advice"]

        assert missing == "Make the queue and send it again, or name another queue."
        assert "If it is the message, no queue of this broker takes it" in refused

    @pytest.mark.parametrize("outcome", [Refused("full"), ChannelClosed("406 not you")])
    def test_that_is_refused_stays_here_and_is_not_in_doubt(
        self, api: Api, outcome: Refused | ChannelClosed
    ) -> None:
        import_id = keep_one(api)
        api.transport.cue(outcome, when=to_queue("orders"))

        answer = send(api, import_id)

        assert (answer.status_code, outcome.reason in detail(answer)) == (409, True)
        assert api.get("imports")[0]["state"] == "kept"
        assert send(api, import_id).status_code == 202

    @pytest.mark.parametrize("stored", [True, False])
    def test_whose_answer_is_lost_is_in_doubt(self, api: Api, *, stored: bool) -> None:
        import_id = keep_one(api)
        api.transport.cue(Unknown("reset"), when=to_queue("orders"), stored=stored)

        answer = send(api, import_id)

        (shown,) = api.get("imports")
        assert answer.status_code == 503
        assert "Nobody knows whether orders has it: reset" in detail(answer)
        assert (shown["state"], shown["send"]["to"]) == ("inDoubt", "orders")
        assert shown["send"]["requested_by"].startswith("anonymous")
        assert kinds(api)[0] == "ImportInDoubt"

    @pytest.mark.parametrize("call", ["transport.publisher", "publisher.probe"])
    def test_without_a_broker_is_neither_sent_nor_in_doubt(self, api: Api, call: str) -> None:
        import_id = keep_one(api)
        api.transport.fail(call, BrokerUnavailable("cannot reach the broker at host:5672: refused"))

        answer = send(api, import_id)

        assert (answer.status_code, "Retry-After" in answer.headers) == (503, True)
        assert "host:5672: refused" in detail(answer)
        assert api.get("imports")[0]["state"] == "kept"
        assert kinds(api) == ["FailedImport"]

    def test_to_a_broker_that_goes_away_before_the_message_is_not_in_doubt(self, api: Api) -> None:
        import_id = keep_one(api)
        calls = iter([None, BrokerUnavailable("reset")])

        def fail(call: str) -> None:
            if call == "publisher.publish" and (error := next(calls)):
                raise error

        api.transport.before_call = fail

        answer = send(api, import_id)

        assert answer.status_code == 503
        assert api.get("imports")[0]["state"] == "kept"
        assert kinds(api)[:2] == ["ImportNotSent", "ImportStamped"]

    def test_to_a_broker_that_takes_nothing_is_answered_in_time(self, api: Api) -> None:
        import_id = keep_one(api)
        api.transport.before_call = lambda call: (
            api.clock.advance(ANSWER_WITHIN + 1) if call == "publisher.publish" else None
        )

        answer = send(api, import_id)

        assert answer.status_code == 503
        assert "the broker took nothing for 20 s" in detail(answer)
        assert api.get("imports")[0]["state"] == "kept"

    def test_to_a_broker_that_never_confirms_is_answered_in_time_and_in_doubt(
        self, api: Api
    ) -> None:
        import_id = keep_one(api)
        api.transport.waits = 2
        published = api.transport.published

        def stand_still(seconds: float) -> Callable[[Any], bool]:
            def match(message: Any) -> bool:
                if message.queue == "orders":
                    api.clock.advance(seconds)
                return False

            return match

        api.transport.cue(Refused("never"), when=stand_still(ANSWER_WITHIN + 1))

        answer = send(api, import_id)

        assert (answer.status_code, len(published)) == (503, 1)
        assert api.get("imports")[0]["state"] == "inDoubt"

    def test_is_not_handed_over_by_a_process_that_stood_still(self, api: Api) -> None:
        """It was frozen behind its stamp: somebody else may have sent it meanwhile."""
        import_id = keep_one(api)

        def freeze(_call: str) -> None:
            if api.transport.calls.count("publisher.publish") == 2:
                api.clock.advance(HAND_OVER_WITHIN + 1)

        api.transport.before_call = freeze

        answer = send(api, import_id)

        assert answer.status_code == 503
        assert "stood still" in detail(answer)
        assert arrived(api) == []
        assert api.get("imports")[0]["state"] == "kept"

    def test_leaves_no_connection_open(self, api: Api) -> None:
        send(api, keep_one(api))

        assert api.transport.connected() == 0


class TestAnImportInDoubt:
    def test_says_so_and_is_sent_again_only_if_that_is_wanted(self, api: Api) -> None:
        import_id = keep_one(api)
        in_doubt(api, import_id)

        refused, sent = send(api, import_id), send(api, import_id, again=True)

        assert (refused.status_code, sent.status_code) == (409, 202)
        assert "may have been sent" in detail(refused)
        assert len(arrived(api)) == 1
        assert api.get("imports") == []

    def test_that_may_be_on_its_way_at_this_moment_is_sent_by_nobody_else(self, api: Api) -> None:
        import_id = keep_one(api)
        stamp_import(api.db, import_id, "orders", again=False, who="ada")

        answers = [
            send(api, import_id),
            send(api, import_id, again=True),
            read_again(api, import_id),
            api.http.delete(f"/api/imports/{import_id}"),
        ]

        assert [each.status_code for each in answers] == [409] * 4
        assert {"being sent" in detail(each) for each in answers} == {True}
        assert arrived(api) == []
        assert api.get("imports")[0]["state"] == "inDoubt"

    def test_that_is_refused_when_it_is_sent_again_is_in_doubt_as_before(self, api: Api) -> None:
        import_id = keep_one(api)
        in_doubt(api, import_id, "first")
        before = api.get("imports")[0]["send"]

        answer = send(api, import_id, "nowhere", again=True)

        assert answer.status_code == 409
        assert api.get("imports")[0]["send"] == before

    def test_can_be_deleted_when_it_has_arrived(self, api: Api) -> None:
        import_id = keep_one(api)
        in_doubt(api, import_id)

        assert api.http.delete(f"/api/imports/{import_id}").status_code == 204
        assert api.get("imports") == []


class TestAnImportDeleted:
    def test_is_gone_and_who_did_it_is_known(self, api: Api) -> None:
        import_id = keep_one(api)

        answer = api.http.delete(f"/api/imports/{import_id}", headers={"X-Retrier-User": "ada"})

        event = api.get("eventlogitems")[0]
        assert (answer.status_code, api.get("imports")) == (204, [])
        assert (event["event_type"], event["who"].split()[0]) == ("ImportDeleted", "ada")
        assert import_id in event["description"]
        assert api.get("ledger")["deliveries"]["difference"] == 0

    def test_is_unknown_after_that(self, api: Api) -> None:
        import_id = keep_one(api)
        api.http.delete(f"/api/imports/{import_id}")

        assert api.http.delete(f"/api/imports/{import_id}").status_code == 404
        assert api.http.delete("/api/imports/no-id").status_code == 404
