"""Something of everything that the API can show, and the names under which it is found."""

from dataclasses import dataclass

from retrier.domain.failed_message import FailedImport, FailedMessageStatus
from retrier.domain.identity import fingerprint
from retrier.store.import_acts import stamp_import
from tests.contract.store_retries import BEING_SENT, SENT, bring_to
from tests.support.api import Api
from tests.support.bench import QUEUE, Bench
from tests.support.factories import ERROR_QUEUE, FAILED_AT, confirmation, failure

Known = dict[str, list[str]]
"""For each parameter of a path: values that something is found under."""


@dataclass(frozen=True, slots=True)
class Seeded:
    """An API on such a database."""

    api: Api
    known: Known


def seed(api: Api) -> Known:
    """Store failures in every status, operations, a batch alive, imports and a redirect."""
    bench = Bench(api.db)
    sent = bring_to(bench, SENT)
    done = bring_to(bench, SENT)
    api.receive(confirmation(done.key), *(_unreadable(body) for body in _BODIES))
    imports = api.ids("imports")
    stamp_import(api.db, imports[0], QUEUE, again=False, who="ada")
    alive = bring_to(bench, BEING_SENT)
    archived, *others = api.receive(*(failure(queue=QUEUE, body=body) for body in _BODIES))
    api.set_status(archived, FailedMessageStatus.ARCHIVED)
    api.http.patch(f"/api/errors/{others[-1]}/archive")
    api.http.post("/api/redirects", json={"fromphysicaladdress": "a", "tophysicaladdress": "b"})
    edited = api.http.post(f"/api/errors/{others[1]}/edit", json={"body": '{"order": 2}'}).json()
    messages = [sent.key, done.key, alive.key, archived, *others]
    times = ["2026-05-04T00:00:00Z", "2026-05-05T00:00:00+02:00", "0001-01-01T00:00:00+23:59"]
    return {
        "failed_message_id": messages,
        "message_id": messages,
        "edit_id": [edited["edit_id"], others[1]],
        "name": ["Sales", "a/b"],
        "endpoint": ["Sales", "a/b"],
        "queue": [QUEUE, ERROR_QUEUE, "a/b"],
        "field_name": ["order", "a/b"],
        "classifier": api.get("recoverability/classifiers"),
        "group_id": [each["id"] for each in api.get("recoverability/groups")],
        "operation_id": [each["id"] for each in api.get("operations")],
        "archive_operation_id": [each["id"] for each in api.get("archive_operations")],
        "batch_id": [each["id"] for each in api.get("batches")],
        "import_id": imports,
        "redirect_id": [each["message_redirect_id"] for each in api.get("redirects")],
        "key": [QUEUE, "a/b", "message_type:Shop.PlaceOrder"],
        "stream_id": ["order 42", "a/b"],
        "keyword": ["Shop.PlaceOrder", QUEUE, "a/b", "50%"],
        "conversation_id": ["talk-1", "a/b"],
        "check_id": ["a"],
        "saga_id": ["a"],
        "first": times,
        "last": times,
    }


_BODIES = (b"", b"\xff\x00", b'{"order": 1}', "Süd".encode())


def _unreadable(body: bytes) -> FailedImport:
    return FailedImport(
        error_queue=ERROR_QUEUE,
        reason="no headers",
        raw=b"",
        body=body,
        fingerprint=fingerprint(b"", body),
        received_at=FAILED_AT,
    )
