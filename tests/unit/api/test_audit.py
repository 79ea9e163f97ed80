"""What the gate refuses is kept: who is known with a line each, who is not in numbers."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from retrier.api.application import ApiParts, create_api
from retrier.api.live import LiveFeed
from retrier.app.audit import RunningAudit
from retrier.audit import Audit
from retrier.domain.access import AccessRole, AccessRules, AccessToken, hash_secret, make_token
from retrier.gateway import Gateway
from retrier.http.access import Gate
from retrier.http.parts import Sights
from retrier.store.event_log import list_newest_events
from retrier.transport.rabbitmq.properties import AmqpPropertyCodec
from tests.conftest import opened_empty
from tests.support.auditing import actions, read, started
from tests.support.frozen_clock import FrozenClock
from tests.support.http_client import client_of
from tests.support.imports import make_imports

NUMBERS = iter(range(1, 10**6))
WRONG = make_token(lambda length: b"\x07" * length)


def token(name: str, role: AccessRole) -> tuple[str, AccessToken]:
    secret = make_token(lambda length: next(NUMBERS).to_bytes(length, "big"))
    return secret, AccessToken(name=name, sha256=hash_secret(secret), role=role)


READER, READER_KEPT = token("watch", AccessRole.READER)
OPERATOR, OPERATOR_KEPT = token("deploy", AccessRole.OPERATOR)


class Guarded:
    """An API that asks who asks, with its audit in a file."""

    def __init__(self, db: Any, path: Path) -> None:
        self.path, self.clock, self.db = path, FrozenClock(), db
        journal = started(path)
        self.running = RunningAudit(audit=Audit(journal, self.clock), journal=journal, db=db)
        audit = self.running.audit
        rules = AccessRules(tokens=(READER_KEPT, OPERATOR_KEPT))
        parts = ApiParts(
            db=db,
            codec=AmqpPropertyCodec(),
            gateway=Gateway(db, lambda: None, imports=make_imports(db), audit=audit),
            metrics=lambda _accept: ("text/plain", b""),
            version="1.2.3",
            feed=LiveFeed(db),
            sights=Sights(db),
            gate=Gate(db, rules, audit=audit, clock=self.clock),
        )
        self.http = client_of(create_api(parts))

    def ask(self, method: str, path: str, secret: str, **more: Any) -> httpx.Response:
        headers = {"Authorization": f"Bearer {secret}"}
        return self.http.request(method, path, headers=headers, **more)

    @property
    def told(self) -> list[Any]:
        return [each for each in read(self.path) if "audit_" not in each["event"]["action"]]


@pytest.fixture
def guarded(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Guarded]:
    with opened_empty("sqlite", request) as db:
        made = Guarded(db, tmp_path / "audit.jsonl")
        yield made
        made.http.close()
        made.running.journal.stop()


def test_an_act_by_a_token_is_kept_under_its_name(guarded: Guarded) -> None:
    answer = guarded.ask("POST", "/api/errors/retry/all", OPERATOR)

    assert answer.status_code == 202
    asked, ended = guarded.told
    assert actions([asked, ended]) == [("retry", "start", "unknown"), ("retry", "end", "success")]
    assert asked["user"] == {"name": "deploy", "roles": ["operator"]}
    assert "token deploy" in asked["retrier"]["asked_by"]


def test_a_refusal_by_role_is_kept_with_what_was_asked_for(guarded: Guarded) -> None:
    answer = guarded.ask("POST", "/api/errors/retry/all", READER)

    assert answer.status_code == 403
    (refused,) = guarded.told
    assert actions([refused]) == [("retry_all", "denied", "failure")]
    assert refused["user"]["name"] == "watch"
    assert refused["event"]["reason"] == answer.json()["detail"]


def test_reading_leaves_no_line(guarded: Guarded) -> None:
    assert guarded.ask("GET", "/api/errors", READER).status_code == 200

    assert guarded.told == []


def test_wrong_tokens_leave_one_line_and_one_event_for_each_reason(guarded: Guarded) -> None:
    answers = [guarded.ask("GET", "/api/errors", WRONG).status_code for _ in range(50)]
    guarded.running.tell()

    assert set(answers) == {401, 429}
    assert sum(each["retrier"]["count"] for each in guarded.told) == 50
    events = list_newest_events(guarded.db, 10)
    refused = [each for each in events if each.kind == "access_refused"]
    assert len(refused) == len(guarded.told) == 2


def test_no_token_is_in_any_line(guarded: Guarded) -> None:
    guarded.ask("POST", "/api/errors/retry/all", OPERATOR, json={})
    guarded.ask("POST", "/api/errors/retry/all", READER)
    guarded.ask("GET", "/api/errors", WRONG)
    guarded.ask("GET", "/api/errors", "rtr_mistyped")
    guarded.running.tell()

    content = guarded.path.read_text()
    assert "rtr_" not in content
    assert hash_secret(OPERATOR) not in content


def test_who_shows_nothing_leaves_nothing(guarded: Guarded) -> None:
    assert guarded.http.get("/api/errors").status_code == 401
    guarded.running.tell()

    assert guarded.told == []


def test_an_act_is_refused_while_the_audit_cannot_be_written(
    guarded: Guarded, tmp_path: Path
) -> None:
    (tmp_path / "audit.jsonl").rename(tmp_path / "elsewhere")
    (tmp_path / "audit.jsonl").mkdir()
    answer = guarded.ask("POST", "/api/errors/retry/all", OPERATOR)

    assert answer.status_code == 503
    assert "for want of the audit" in answer.json()["detail"]
    assert guarded.ask("GET", "/api/errors", OPERATOR).status_code == 200
    (tmp_path / "audit.jsonl").rmdir()


def test_what_the_database_could_not_be_told_is_told_later(guarded: Guarded) -> None:
    guarded.ask("GET", "/api/errors", WRONG)
    guarded.running.tell()
    guarded.ask("GET", "/api/errors", WRONG)
    guarded.clock.advance(60)
    guarded.running.tell()

    events = list_newest_events(guarded.db, 10)
    assert [each.kind for each in events].count("access_refused") == 2
