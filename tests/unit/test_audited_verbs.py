"""Whatever somebody asks for is kept: before it is done, and before it is answered."""

import errno
import inspect
import json
import types
import typing
from collections.abc import Iterator, Mapping
from datetime import timedelta
from enum import Enum

import pytest

from retrier.archives import Archives
from retrier.audit import AUDITED, Audit, describe_answer
from retrier.domain.access import Access, AccessRole, How
from retrier.domain.approval import Decided
from retrier.domain.archive_operation import Act, ActRefusal, ArchiveRequest
from retrier.domain.audit import AuditOutcome
from retrier.domain.breakers import BreakerKey, BreakerState, Per
from retrier.domain.edits import AskedEdit, Editable, EditedMessage, EditRefusal, EditRefused
from retrier.domain.failed_imports import (
    Doubtful,
    NotTaken,
    NotTried,
    ReadAgain,
    Sent,
    WrongDialect,
    WrongQueue,
)
from retrier.domain.recovery import Recovery
from retrier.domain.retry_operation import AskedAgain, Pause, RetryRequest, RetryType, Steered
from retrier.domain.selection import Selection
from retrier.domain.streams import NotInStream, Released, UnknownStream
from retrier.domain.views import SavedView
from retrier.edits import Edits
from retrier.errors import AuditUnavailable, NotAllowed
from retrier.gateway import Comments, Gateway, Views
from retrier.imports import FailedImports
from retrier.store.archive import AskedArchive
from retrier.store.archive_lists import PlannedAct
from retrier.store.breakers import HandedBreaker
from retrier.store.engine.database import Database
from retrier.store.fields import ReadAnew
from retrier.store.message_lists import PageRequest
from retrier.store.operation_lists import list_operations
from retrier.store.operation_requests import CreatedOperation
from retrier.store.previews import Preview
from retrier.tokens import Tokens
from tests.conftest import opened_empty
from tests.support.api import Api
from tests.support.auditing import ADMIN, READER, ListedLines, actions, journal_on
from tests.support.factories import failure
from tests.support.frozen_clock import FrozenClock
from tests.support.imports import make_imports

NO_VERBS = {"of", "guard", "comments", "edits", "views", "tokens", "why_not_send_to"}
"""What asks for nothing and refuses nobody."""

OWN = Access(
    name="bob", how=How.OIDC, role=AccessRole.ADMIN, queues=("orders*",), address="10.0.0.9"
)
TOKEN = "rtr_" + "ab" * 36


@pytest.fixture
def api(request: pytest.FixtureRequest) -> Iterator[Api]:
    with opened_empty("sqlite", request) as db:
        made = Api(db)
        yield made
        made.http.close()


@pytest.fixture
def lines() -> ListedLines:
    return ListedLines()


@pytest.fixture
def gateway(api: Api, lines: ListedLines) -> Gateway:
    journal = journal_on(lines)
    journal.start()
    audit = Audit(journal, FrozenClock())
    imports = make_imports(api.db)
    return Gateway(
        api.db,
        lambda: None,
        imports=FailedImports(
            **{name: getattr(imports, name) for name in imports.__slots__ if name != "audit"},
            audit=audit,
        ),
        audit=audit,
    )


def retry(selection: Selection, **more: str) -> RetryRequest:
    return RetryRequest(
        retry_type=RetryType.ALL,
        selection=selection,
        originator="all",
        requested_by="ann (10.0.0.7)",
        **more,
    )


def count_operations(db: Database) -> int:
    return list_operations(db, PageRequest()).page.total


KINDS = [Gateway, Archives, Comments, Edits, Views, Tokens, FailedImports]


@pytest.mark.parametrize("kind", KINDS)
def test_every_verb_is_kept(kind: type) -> None:
    verbs = {
        name: value
        for name, value in vars(kind).items()
        if inspect.isfunction(value) and not name.startswith("_") and name not in NO_VERBS
    }

    assert len(verbs) > 1
    assert [name for name, value in verbs.items() if not hasattr(value, AUDITED)] == []


REFUSALS = [
    WrongQueue("no"),
    WrongDialect("no"),
    NotTaken("no"),
    NotTried("no"),
    EditRefused(why=EditRefusal.HELD),
    UnknownStream(),
    NotInStream(ids=("x",)),
]
"""What verbs return, beside members of enumerations, if nothing was done."""


@pytest.mark.parametrize("refusal", [*REFUSALS, ActRefusal.UNKNOWN], ids=type)
def test_an_answer_that_refuses_is_told_as_a_failure(refusal: object) -> None:
    assert describe_answer(refusal).outcome is AuditOutcome.FAILURE


def test_every_answer_of_a_verb_is_known_to_say_yes_or_no() -> None:
    answers = {
        each
        for kind in KINDS
        for verb in vars(kind).values()
        if getattr(verb, AUDITED, None)
        for each in members_of(typing.get_type_hints(inspect.unwrap(verb))["return"])
    }

    assert answers - SAY_YES - {type(each) for each in REFUSALS} == set()


def members_of(answer: object) -> set[type]:
    """Return the classes of a union, without enumerations, whose members all refuse."""
    parts = typing.get_args(answer) if isinstance(answer, types.UnionType) else (answer,)
    known = {typing.get_origin(each) or each for each in parts}
    return {each for each in known if isinstance(each, type) and not issubclass(each, Enum)}


SAY_YES: set[type] = {
    *(AskedAgain, AskedArchive, AskedEdit, CreatedOperation, Decided, Steered, Released),
    *(
        ReadAnew,
        SavedView,
        HandedBreaker,
        Recovery,
        ReadAgain,
        Sent,
        Preview,
        PlannedAct,
        FailedImports,
    ),
    *(Editable, EditedMessage, Mapping, bool, str, type(None)),
    Doubtful,  # neither: told as unknown
}


def test_an_act_has_a_line_before_it_and_one_before_its_answer(
    api: Api, gateway: Gateway, lines: ListedLines
) -> None:
    (unique_id,) = api.receive(failure())
    created = gateway.of(ADMIN).retry(retry(Selection(ids=(unique_id,)), why="it is repaired"))

    asked, ended = lines.told
    assert actions(lines.told) == [("retry", "start", "unknown"), ("retry", "end", "success")]
    assert asked["user"] == {"name": "ann@example.org", "roles": ["admin"]}
    assert asked["source"]["ip"] == "10.0.0.7"
    assert asked["retrier"]["how"] == "oidc"
    assert asked["retrier"]["selection"] == {"ids": [unique_id]}
    assert asked["retrier"]["why"] == "it is repaired"
    assert ended["retrier"]["asked_in"] == asked["event"]["sequence"]
    assert ended["retrier"]["operation_id"] == created.operation_id
    assert ended["retrier"]["messages"] == 1


def test_the_line_before_stands_there_while_nothing_is_done_yet(
    api: Api, gateway: Gateway, lines: ListedLines
) -> None:
    api.receive(failure())
    done_before: list[int] = []
    append = lines.append

    def look(line: bytes) -> None:
        done_before.append(count_operations(api.db))
        append(line)

    lines.append = look  # type: ignore[method-assign]
    gateway.of(ADMIN).retry(retry(Selection()))

    standing = done_before[0]
    assert done_before == [standing, standing + 1]


def test_nothing_is_done_that_cannot_be_written(
    api: Api, gateway: Gateway, lines: ListedLines
) -> None:
    api.receive(failure())
    before = count_operations(api.db)
    lines.broken = OSError(errno.ENOSPC, "No space left on device")

    with pytest.raises(AuditUnavailable):
        gateway.of(ADMIN).retry(retry(Selection()))
    assert count_operations(api.db) == before


def test_what_is_done_is_answered_and_written_later(
    api: Api, gateway: Gateway, lines: ListedLines
) -> None:
    api.receive(failure())
    append = lines.append

    def fill_up(line: bytes) -> None:
        append(line)
        lines.broken = OSError(errno.ENOSPC, "No space left on device")

    lines.append = fill_up  # type: ignore[method-assign]
    created = gateway.of(ADMIN).retry(retry(Selection()))
    lines.append, lines.broken = append, None  # type: ignore[method-assign]
    gateway.of(ADMIN).retry(retry(Selection()))

    late = lines.told[1]
    assert late["retrier"]["operation_id"] == created.operation_id
    assert "happened_at" in late["retrier"]


def test_a_refusal_by_role_is_kept_with_its_reason(gateway: Gateway, lines: ListedLines) -> None:
    with pytest.raises(NotAllowed):
        gateway.of(READER).retry(retry(Selection(queue="orders")))

    refused = lines.told[-1]
    assert actions([refused]) == [("retry", "denied", "failure")]
    assert refused["retrier"]["allowed"] is False
    assert refused["retrier"]["selection"] == {"queue": "orders"}
    assert refused["event"]["reason"].startswith("This takes the role operator")


def test_a_preview_is_kept_only_if_it_is_refused(
    api: Api, gateway: Gateway, lines: ListedLines
) -> None:
    own, codec = gateway.of(OWN), api.transport.codec
    own.plan(retry(Selection(queue="orders.eu")), codec)
    with pytest.raises(NotAllowed):
        own.plan(retry(Selection(queue="billing")), codec)

    assert actions(lines.told) == [("preview", "denied", "failure")]


def test_the_rights_to_queues_stand_in_the_line(gateway: Gateway, lines: ListedLines) -> None:
    gateway.of(OWN).retry(retry(Selection(queue="orders.eu")))

    assert lines.told[0]["retrier"]["queues"] == ["orders*"]


def test_a_plan_is_named_by_its_hash(gateway: Gateway, lines: ListedLines) -> None:
    gateway.of(ADMIN).retry(retry(Selection(queue="orders", counted_to=7, passed_over=(3, 4))))

    plan = lines.told[0]["retrier"]["plan"]
    assert (plan["counted_to"], plan["passed_over"], len(plan["hash"])) == (7, 2, 64)


def test_an_archive_is_kept_as_what_it_does(api: Api, gateway: Gateway, lines: ListedLines) -> None:
    ids = tuple(api.receive(failure()))
    request = ArchiveRequest(
        act=Act.RESOLVE, selection=Selection(ids=ids), originator="", requested_by="ann"
    )
    gateway.of(ADMIN).archives.ask(request)

    assert actions(lines.told) == [("resolve", "start", "unknown"), ("resolve", "end", "success")]


def test_an_undo_is_one_act(api: Api, gateway: Gateway, lines: ListedLines) -> None:
    ids = tuple(api.receive(failure()))
    request = ArchiveRequest(
        act=Act.ARCHIVE, selection=Selection(ids=ids), originator="", requested_by="ann"
    )
    archives = gateway.of(ADMIN).archives
    done = archives.ask(request).operation
    archives.undo(
        done.operation_id,
        lambda selection: ArchiveRequest(
            act=Act.UNARCHIVE, selection=selection, originator="", requested_by="ann"
        ),
    )

    assert actions(lines.told)[2:] == [("undo", "start", "unknown"), ("undo", "end", "success")]


def test_an_act_that_is_refused_as_it_makes_no_sense_has_failed(
    gateway: Gateway, lines: ListedLines
) -> None:
    nobody = "00000000-0000-4000-8000-000000000000"
    gateway.of(ADMIN).steer(nobody, [Pause()], "ann")

    ended = lines.told[-1]
    assert actions([ended]) == [("steer", "end", "failure")]
    assert ended["event"]["reason"] == "no operation has this id"
    assert lines.told[0]["retrier"]["orders"] == ["pause"]


def test_the_reason_why_a_redirect_is_refused_is_kept(gateway: Gateway, lines: ListedLines) -> None:
    gateway.of(ADMIN).create_redirect("orders", "orders", "ann")

    ended = lines.told[-1]
    assert (ended["event"]["outcome"], bool(ended["event"]["reason"])) == ("failure", True)


def test_a_breaker_is_kept_with_how_it_is_set(gateway: Gateway, lines: ListedLines) -> None:
    key = BreakerKey(per=Per.DESTINATION, name="orders")
    gateway.of(ADMIN).set_breaker(key, BreakerState.OPEN, timedelta(hours=1), "ann", None)

    told = lines.told[0]["retrier"]
    assert (told["breaker"], told["state"], told["lasts"]) == (str(key), "open", 3600.0)


def test_what_is_commented_is_not_kept_and_who_did_is(gateway: Gateway, lines: ListedLines) -> None:
    gateway.of(ADMIN).comments.write("no such group", "a customer's name", "ann")

    assert actions(lines.told)[-1] == ("write_comment", "end", "failure")
    assert "customer" not in json.dumps(lines.told)
    assert lines.told[0]["retrier"]["asked_by"] == "ann"


def test_a_token_is_never_written_down(gateway: Gateway, lines: ListedLines) -> None:
    gateway.of(ADMIN).retry(retry(Selection(queue=TOKEN), why=f"with {TOKEN}"))

    assert TOKEN not in json.dumps(lines.told)


def test_a_token_that_is_made_is_kept_by_its_name_alone(
    gateway: Gateway, lines: ListedLines
) -> None:
    gateway.tokens_given = frozenset()
    made = gateway.of(ADMIN).tokens.create("deploy", AccessRole.OPERATOR, ("orders*",), None, "ann")

    told = lines.told[0]["retrier"]
    assert (told["name"], told["role"], told["queues"]) == ("deploy", "operator", ["orders*"])
    assert actions(lines.told)[-1] == ("create_token", "end", "success")
    assert made not in json.dumps(lines.told)


def test_who_is_not_asked_leaves_no_line(api: Api, gateway: Gateway, lines: ListedLines) -> None:
    api.receive(failure())
    gateway.retry(retry(Selection()))

    assert lines.told == []


def test_many_ids_are_counted_and_the_first_of_them_named(
    gateway: Gateway, lines: ListedLines
) -> None:
    ids = tuple(f"00000000-0000-4000-8000-{number:012}" for number in range(5000))
    gateway.of(ADMIN).retry(retry(Selection(ids=ids)))

    selection = lines.told[0]["retrier"]["selection"]
    assert (len(selection["ids"]), selection["ids_count"]) == (100, 5000)
    assert len(lines.lines[-2]) < 10_000
