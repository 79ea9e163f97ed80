"""A patch: what is wrong in one, what it makes of a message, and why it cannot be applied to some."""

import gzip
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from retrier.domain import headers
from retrier.domain.edits import LOCKED
from retrier.domain.patches import (
    DEEPEST,
    LONGEST,
    MOST_OPERATIONS,
    PatchRefusal,
    PatchRefused,
    WrongPatch,
    patch_message,
    read_patch,
    show_sample,
    write_patch,
)
from retrier.domain.retry_batch import StoredOriginal
from retrier.transport.rabbitmq.properties import AmqpPropertyCodec
from tests.support import raw_messages

CODEC = AmqpPropertyCodec()
JSON = b'{"order": 7, "total": 1.10, "lines": [{"id": 12345678901234567890}]}'


def original(
    body: bytes = JSON, dialect: str = "retrier", fields: Any = None, **values: Any
) -> StoredOriginal:
    own = {"Shop.Tenant": "north", **values}
    raw = raw_messages.raw_properties(own, **(fields or {"content_type": "application/json"}))
    return StoredOriginal(raw, body, dialect, "error", completed_steps=None)


def made_of(found: StoredOriginal, given: Any) -> StoredOriginal | PatchRefused:
    return patch_message(CODEC, found, read_patch(write_patch(given)))


def patched(found: StoredOriginal, given: Any) -> StoredOriginal:
    made = made_of(found, given)
    assert isinstance(made, StoredOriginal), made
    return made


def reason(found: StoredOriginal, given: Any) -> str:
    made = made_of(found, given)
    assert isinstance(made, PatchRefused), made
    return made.reason


def header(found: StoredOriginal, name: str) -> object:
    return CODEC.read(found.raw).headers.get(name)


def setting(**values: str) -> dict[str, Any]:
    return {"headers": {"set": values}}


def operation(op: str, path: str, **more: Any) -> dict[str, Any]:
    return {"body": [{"op": op, "path": path, **more}]}


class TestAWrongPatch:
    @pytest.mark.parametrize(
        ("given", "where"),
        [
            ({}, ""),
            ([], ""),
            ({"header": {}}, "header"),
            ({"headers": {"add": {}}}, "headers.add"),
            ({"headers": {"set": []}}, "headers.set"),
            ({"headers": {"set": {"a": 1}}}, "headers.set.a"),
            ({"headers": {"set": {"a": "x\0"}}}, "headers.set.a"),
            ({"headers": {"set": {LOCKED[0]: "x"}}}, f"headers.set.{LOCKED[0]}"),
            ({"headers": {"set": {headers.RETRY_ID: "x"}}}, f"headers.set.{headers.RETRY_ID}"),
            ({"headers": {"set": {"CC": "x"}}}, "headers.set.CC"),
            ({"headers": {"remove": [LOCKED[0]]}}, "headers.remove.0"),
            ({"headers": {"remove": ["ok", ""]}}, "headers.remove.1"),
            ({"headers": {"set": {"a": "1"}, "remove": ["a"]}}, "headers.remove"),
            ({"body": []}, "body"),
            ({"body": "text"}, "body"),
            ({"body": ["remove"]}, "body.0"),
            ({"body": [{"op": "append", "path": "/a", "value": 1}]}, "body.0.op"),
            ({"body": [{"op": "remove"}]}, "body.0.path"),
            ({"body": [{"op": "remove", "path": "a"}]}, "body.0.path"),
            ({"body": [{"op": "remove", "path": "/~2"}]}, "body.0.path"),
            ({"body": [{"op": "move", "path": "/a"}]}, "body.0.from"),
            ({"body": [{"op": "copy", "path": "/a", "from": "b"}]}, "body.0.from"),
            ({"body": [{"op": "add", "path": "/a"}]}, "body.0.value"),
            ({"body": {"replace": ["a"]}}, "body.replace"),
            ({"body": {"replace": ["(", "b"]}}, "body.replace.0"),
            ({"body": {"replace": ["(?=a)", "b"]}}, "body.replace.0"),
            ({"body": {"replace": ["x*", "b"]}}, "body.replace.0"),
            ({"body": {"replace": ["", "b"]}}, "body.replace.0"),
            ({"body": {"replace": ["a", r"\1"]}}, "body.replace.1"),
            ({"body": {"replace": ["a", r"\n"]}}, "body.replace.1"),
            ({"body": {"regex": ["a", "b"]}}, "body.regex"),
            ({"body": [{"op": "add", "path": "/a", "value": float("inf")}]}, ""),
        ],
    )
    def test_is_refused_with_its_place(self, given: Any, where: str) -> None:
        with pytest.raises(WrongPatch) as refused:
            write_patch(given)

        assert refused.value.where == where
        assert str(refused.value)

    def test_is_one_of_too_many_operations(self) -> None:
        one = {"op": "remove", "path": "/a"}

        with pytest.raises(WrongPatch, match="operations of JSON Patch"):
            write_patch({"body": [one] * (MOST_OPERATIONS + 1)})

    def test_is_one_that_is_too_long(self) -> None:
        with pytest.raises(WrongPatch, match="characters"):
            write_patch(setting(a="x" * LONGEST))

    def test_is_one_that_nests_too_deep(self) -> None:
        deep: Any = 1
        for _ in range(DEEPEST):
            deep = [deep]

        with pytest.raises(WrongPatch, match="deeper"):
            write_patch(operation("add", "/a", value=deep))


class TestTheHeaders:
    def test_that_are_set_have_their_new_value(self) -> None:
        assert header(patched(original(), setting(Region="eu")), "Region") == "eu"

    def test_that_are_removed_are_gone(self) -> None:
        made = patched(original(), {"headers": {"remove": ["Shop.Tenant"]}})

        assert header(made, "Shop.Tenant") is None

    def test_that_are_numbers_stay_numbers(self) -> None:
        assert header(patched(original(tries=1), setting(tries="2")), "tries") == 2

    def test_that_are_numbers_take_no_other_text(self) -> None:
        assert "tries" in reason(original(tries=1), setting(tries="two"))

    def test_leave_the_body_as_it_came(self) -> None:
        assert patched(original(b"\xff\x00"), setting(Region="eu")).body == b"\xff\x00"

    def test_leave_the_message_its_identity(self) -> None:
        made = patched(original(fields={"message_id": "m1"}), setting(Region="eu"))

        assert CODEC.read(made.raw).fields["message_id"] == "m1"
        assert header(made, headers.EDIT_OF) is None

    def test_that_describe_the_failure_cannot_be_set(self) -> None:
        found = original(dialect="nservicebus")

        with pytest.raises(WrongPatch):
            made_of(found, setting(**{"NServiceBus.ExceptionInfo.Data.x": "y"}))

    def test_that_are_too_many_for_a_frame_are_refused(self) -> None:
        found = original(large="x" * 100_000)

        assert reason(found, setting(more="y" * 40_000)) == PatchRefusal.DOES_NOT_FIT

    @pytest.mark.parametrize(
        "headers",
        [{"set": {"retrier.failedqueue": "x"}}, {"remove": ["nservicebus.messageid"]}],
    )
    def test_that_describe_the_failure_are_known_in_any_case(self, headers: Any) -> None:
        with pytest.raises(WrongPatch, match="must not be changed or removed"):
            read_patch(write_patch({"headers": headers}))


class TestAJsonPatch:
    def test_changes_what_it_names(self) -> None:
        made = patched(original(), operation("replace", "/order", value=8))

        assert json.loads(made.body)["order"] == 8

    def test_leaves_the_digits_of_all_other_numbers(self) -> None:
        made = patched(original(), operation("replace", "/order", value=8))

        assert made.body == b'{"order":8,"total":1.10,"lines":[{"id":12345678901234567890}]}'

    def test_leaves_the_properties_as_they_came(self) -> None:
        found = original()

        assert patched(found, operation("remove", "/order")).raw == found.raw

    def test_makes_the_same_of_the_same_message_each_time(self) -> None:
        given = {
            "body": [
                {"op": "add", "path": "/tags", "value": []},
                {"op": "add", "path": "/tags/-", "value": "late"},
            ]
        }

        assert patched(original(), given).body == patched(original(), given).body

    def test_keeps_the_digits_of_its_own_values(self) -> None:
        made = patched(original(), operation("add", "/n", value=10**25))

        assert b'"n":10000000000000000000000000' in made.body

    def test_tests_numbers_by_their_value(self) -> None:
        given = {
            "body": [
                {"op": "test", "path": "/total", "value": 1.1},
                {"op": "remove", "path": "/total"},
            ]
        }

        assert b"total" not in patched(original(), given).body

    def test_does_not_take_a_number_for_a_truth(self) -> None:
        given = {
            "body": [
                {"op": "test", "path": "/a", "value": True},
                {"op": "remove", "path": "/a"},
            ]
        }

        assert "test" in reason(original(b'{"a": 1}'), given)

    def test_says_which_of_its_operations_finds_nothing(self) -> None:
        found = reason(original(), operation("remove", "/customer/id"))

        assert found == "operation 1 of the patch (remove /customer/id) finds nothing there"

    def test_does_not_tell_everybody_the_path(self) -> None:
        found = made_of(original(), operation("remove", "/customer/id"))

        assert str(found) == "operation 1 of the patch (remove) finds nothing there"

    @pytest.mark.parametrize(
        "given",
        [
            operation("remove", ""),
            operation("replace", "/lines/-", value=1),
            operation("replace", "/lines/9", value=1),
            operation("add", "/lines/9", value=1),
            operation("add", "/lines/01", value=1),
            operation("add", "/order/x", value=1),
            operation("add", "/total/x", value=1),
            operation("move", "/lines/0", **{"from": "/lines"}),
            operation("copy", "/a", **{"from": "/nothing"}),
        ],
    )
    def test_finds_nothing_there(self, given: Any) -> None:
        assert PatchRefusal.NOT_THERE in reason(original(), given)

    def test_that_fails_its_test_is_not_applied(self) -> None:
        assert PatchRefusal.TEST_FAILED in reason(original(), operation("test", "/order", value=6))

    def test_that_tests_only_changes_nothing(self) -> None:
        assert reason(original(), operation("test", "/order", value=7)) == PatchRefusal.NOTHING

    def test_that_sets_what_is_there_changes_nothing(self) -> None:
        assert reason(original(), operation("add", "/order", value=7)) == PatchRefusal.NOTHING

    @pytest.mark.parametrize("body", [b"plain", b"", b"<a/>", b"{", b"NaN"])
    def test_is_not_applied_to_what_is_no_json(self, body: bytes) -> None:
        assert reason(original(body), operation("add", "", value={})) == PatchRefusal.NO_JSON

    def test_is_not_applied_to_what_is_no_text(self) -> None:
        assert reason(original(b"\xff"), operation("add", "", value={})) == PatchRefusal.NO_TEXT

    def test_is_not_applied_where_a_member_would_be_lost(self) -> None:
        found = original(b'{"a": 1, "a": 2}')

        assert reason(found, operation("add", "/b", value=1)) == PatchRefusal.NAMED_TWICE

    def test_is_not_applied_to_what_nests_too_deep(self) -> None:
        deep = original(b"[" * 101 + b"]" * 101)

        assert reason(deep, operation("add", "/-", value=1)) == PatchRefusal.TOO_DEEP

    def test_does_not_fill_the_memory_with_copies_of_copies(self) -> None:
        copies = [{"op": "copy", "from": "", "path": f"/{at}"} for at in range(60)]

        assert reason(original(), {"body": copies}) in (
            PatchRefusal.TOO_LARGE,
            PatchRefusal.TOO_DEEP,
        )

    def test_writes_in_the_charset_of_the_body(self) -> None:
        found = original(
            '{"name": "é"}'.encode("latin-1"),
            fields={"content_type": "application/json; charset=latin-1"},
        )

        assert patched(found, operation("add", "/a", value="ü")).body == (
            '{"name":"é","a":"ü"}'.encode("latin-1")
        )

    def test_escapes_what_the_charset_does_not_know(self) -> None:
        found = original(
            '{"name": "é"}'.encode("latin-1"),
            fields={"content_type": "application/json; charset=latin-1"},
        )

        assert patched(found, operation("add", "/a", value="€")).body == (
            b'{"name":"\\u00e9","a":"\\u20ac"}'
        )

    def test_keeps_a_body_without_other_letters_so(self) -> None:
        found = original(b'{"name": "\\u00e9"}')

        assert patched(found, operation("add", "/a", value=1)).body == b'{"name":"\\u00e9","a":1}'

    def test_keeps_the_mark_at_the_beginning(self) -> None:
        made = patched(original(b'\xef\xbb\xbf{"a": 1}'), operation("add", "/a", value=2))

        assert made.body == b'\xef\xbb\xbf{"a":2}'

    def test_is_applied_to_what_is_packed_and_packed_again(self) -> None:
        found = original(gzip.compress(JSON), fields={"content_encoding": "gzip"})

        made = patched(found, operation("replace", "/order", value=8))

        assert json.loads(gzip.decompress(made.body))["order"] == 8

    def test_packs_the_same_each_time(self) -> None:
        found = original(gzip.compress(JSON), fields={"content_encoding": "gzip"})
        given = operation("replace", "/order", value=8)

        assert patched(found, given).body == patched(found, given).body


class TestAReplacement:
    def test_stands_everywhere_where_the_pattern_is_found(self) -> None:
        made = patched(original(b"a-b-a"), {"body": {"replace": ["a", "xy"]}})

        assert made.body == b"xy-b-xy"

    def test_may_name_what_was_found(self) -> None:
        made = patched(original(b"order 12"), {"body": {"replace": [r"(\w+) (\d+)", r"\2 \\\1"]}})

        assert made.body == b"12 \\order"

    def test_finds_other_letters(self) -> None:
        made = patched(original("größe".encode()), {"body": {"replace": ["ö", "oe"]}})

        assert made.body == "groeße".encode()

    def test_that_finds_nothing_changes_nothing(self) -> None:
        assert reason(original(), {"body": {"replace": ["zzz", "y"]}}) == PatchRefusal.NOTHING

    def test_makes_no_number_that_json_does_not_have(self) -> None:
        assert reason(original(), {"body": {"replace": ["7", "NaN"]}}) == PatchRefusal.BROKEN

    def test_must_leave_json_what_it_is(self) -> None:
        assert reason(original(), {"body": {"replace": ["}$", ""]}}) == PatchRefusal.BROKEN

    def test_must_leave_xml_what_it_is(self) -> None:
        found = original(b"<a><b/></a>", fields={"content_type": "text/xml"})

        assert reason(found, {"body": {"replace": ["</a>", ""]}}) == PatchRefusal.BROKEN

    def test_must_leave_something(self) -> None:
        assert reason(original(b"x"), {"body": {"replace": ["x", ""]}}) == PatchRefusal.BROKEN

    def test_must_be_known_to_the_charset(self) -> None:
        found = original(b"x", fields={"content_type": "text/plain; charset=latin-1"})

        assert reason(found, {"body": {"replace": ["x", "€"]}}) == PatchRefusal.NOT_IN_CHARSET

    def test_does_not_grow_without_end(self) -> None:
        given = {"body": {"replace": ["a", "b" * 60_000]}}

        assert reason(original(b"a" * 1000), given) == PatchRefusal.TOO_LARGE

    def test_grows_so_much_that_many_can_be_made_at_once(self) -> None:
        given = {"body": {"replace": ["a", "b" * 60_000]}}

        assert reason(original(b"a" * 10), given) == PatchRefusal.GROWN


class TestASample:
    def test_shows_the_headers_that_differ(self) -> None:
        found = original()

        shown = show_sample(CODEC, "id", found, patched(found, setting(Region="eu")))

        assert [(each.name, each.before, each.after) for each in shown.headers] == [
            ("Region", None, "eu")
        ]
        assert not shown.body_changed

    def test_shows_the_body_before_and_after(self) -> None:
        found = original(b'{"a": 1}')

        shown = show_sample(CODEC, "id", found, patched(found, operation("add", "/a", value=2)))

        assert (shown.body_before, shown.body_after) == ('{"a": 1}', '{"a":2}')


_POINTERS = st.sampled_from(["", "/", "/a", "/a/0", "/a/-", "/a/b", "/b/01", "/a/0/b", "/~0", "/é"])
_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inside: (
        st.lists(inside, max_size=3)
        | st.dictionaries(st.sampled_from(["a", "b", "0", "-", "é"]), inside, max_size=3)
    ),
    max_leaves=8,
)


@given(
    body=_VALUES.map(lambda value: json.dumps(value).replace("Infinity", "1")),
    operations=st.lists(
        st.fixed_dictionaries(
            {
                "op": st.sampled_from(["add", "remove", "replace", "move", "copy", "test"]),
                "path": _POINTERS,
                "from": _POINTERS,
                "value": _VALUES.filter(lambda value: "Infinity" not in json.dumps(value)),
            }
        ),
        min_size=1,
        max_size=5,
    ),
)
def test_any_patch_makes_json_of_json_or_says_why_not(body: str, operations: Any) -> None:
    made = made_of(original(body.encode()), {"body": operations})

    if isinstance(made, StoredOriginal):
        json.loads(made.body)
    else:
        assert made.reason
