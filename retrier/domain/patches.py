"""Patches: one change of many failed messages, made of each of them when it is sent again.

A patch says which headers are set and removed, and what of the body is another: by JSON Patch (RFC
6902), or by a pattern and a text. It is kept as a text with the operation that sends what it makes.
The same patch and the same message give the same bytes, however often they are made.
"""

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import field, replace
from enum import StrEnum
from functools import lru_cache
from typing import Any

import re2
from jsonpatch import JsonPatch, JsonPatchException, JsonPatchTestFailed, JsonPointerException

from retrier.domain.edits import (
    LONGEST_NAME,
    MOST_BYTES,
    Body,
    Changes,
    EditRefusal,
    EditRefused,
    HeaderChange,
    change,
    compare_headers,
    is_locked,
    why_grown_too_large,
    why_never_set,
)
from retrier.domain.json_texts import (
    NamedTwice,
    NotJson,
    TooDeep,
    depth_of,
    read_json,
    write_json,
)
from retrier.domain.retry_batch import StoredOriginal
from retrier.domain.values import dataclass
from retrier.domain.wire import Edit, NotOfItsType, PropertyCodec, UnreadableProperties

LONGEST = 64 * 1024
"""Characters of a patch, at most, written as JSON."""

MOST_OPERATIONS = 100
"""Operations of a JSON Patch, at most."""

MOST_HEADERS = 100
"""Headers that a patch sets, and that it removes, at most."""

DEEPEST = 100
"""How deep a body may nest that a JSON Patch is applied to, and what comes of it."""

MOST_GROWTH = 256 * 1024
"""Bytes by which a body may grow: many are made at once, as many as there is room for as they came."""

_OPERATIONS = frozenset({"add", "remove", "replace", "move", "copy", "test"})
_FROM = frozenset({"move", "copy"})
_VALUE = frozenset({"add", "replace", "test"})
_MOST_STEPS = 10_000
_MEMORY = 16 * 1024 * 1024
_SHOWN = 200
"""Characters of a path, or of RE2's words, that are shown."""


class WrongPatch(ValueError):
    """A patch cannot be meant; `where` is the path of what is wrong in it."""

    def __init__(self, where: str, why: str) -> None:
        super().__init__(why)
        self.where = where


class PatchRefusal(StrEnum):
    """Why a message is not what a patch asks for."""

    NO_TEXT = "its body is no text"
    NO_JSON = "its body is no JSON"
    NAMED_TWICE = "an object in its body has two members with one name: one would be lost"
    TOO_DEEP = "its body nests deeper than 100 values"
    TOO_LARGE = "its body is larger than 8 MiB, or would be"
    NOT_THERE = "finds nothing there"
    TEST_FAILED = "is a test, and fails"
    GROWN = "its body would grow by more than 256 KiB"
    BROKEN = "its body would be broken"
    NOT_IN_CHARSET = "its body cannot be written in its charset"
    DOES_NOT_FIT = "the broker would not take it"
    NOTHING = "the patch changes nothing of it"
    UNREADABLE = "its stored properties cannot be read"


@dataclass(frozen=True, slots=True, kw_only=True)
class PatchRefused:
    """Why a message cannot be patched.

    `reason` is the same for all messages of which it is true, so that these can be counted;
    `detail` says more of this one. A reason may name a path of the patch, which is for who may read
    bodies. As a text it is for everybody: `told` stands in the place of such a reason.
    """

    reason: str
    detail: str = ""
    told: str = ""

    def __str__(self) -> str:
        reason = self.told or self.reason
        return f"{reason} ({self.detail})" if self.detail else reason


@dataclass(frozen=True, slots=True, kw_only=True)
class _Operation:
    """An operation of a JSON Patch. It may make a body deeper, and a copy of a part twice as large."""

    words: str
    told: str
    patch: JsonPatch
    deepens: bool
    copies: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class _Replacement:
    """A pattern, and what stands in place of what it finds: texts, and numbers of its groups."""

    found: Any
    parts: Sequence[bytes | int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Patch:
    """A patch as it is applied."""

    set_headers: Mapping[str, str] = field(default_factory=dict)
    remove: frozenset[str] = frozenset()
    operations: Sequence[_Operation] = ()
    replacement: _Replacement | None = None

    @property
    def is_of_body(self) -> bool:
        """Whether it changes the body."""
        return bool(self.operations) or self.replacement is not None


def write_patch(given: object) -> str:
    """Return a patch as the text under which it is kept. Raises WrongPatch."""
    try:
        text = json.dumps(given, allow_nan=False, separators=(",", ":"))
    except (ValueError, TypeError, RecursionError):
        raise WrongPatch("", "has a number that JSON cannot have, or nests too deep") from None
    if len(text) > LONGEST:
        raise WrongPatch("", f"has more than {LONGEST:,} characters, written as JSON")
    read_patch(text)
    return text


def parse_patch(text: str) -> str:
    """Return a patch that a person has written, as the text under which it is kept.

    Raises WrongPatch.
    """
    try:
        written = write_json(read_json(text), ascii_only=True)
    except NamedTwice:
        raise WrongPatch("", "has an object with two members of one name") from None
    except NotJson as error:
        raise WrongPatch("", f"is no JSON: {error}") from None
    if len(written) > LONGEST:
        raise WrongPatch("", f"has more than {LONGEST:,} characters, written as JSON")
    read_patch(written)
    return written


@lru_cache(maxsize=32)
def read_patch(text: str) -> Patch:
    """Return the patch that a text holds. Raises WrongPatch."""
    try:
        given = read_json(text)
        depth = depth_of(given)
    except NotJson as error:
        raise WrongPatch("", f"is no JSON: {error}") from None
    if depth > DEEPEST:
        raise WrongPatch("", f"nests deeper than {DEEPEST} values")
    parts = _members("", given, {"headers", "body"})
    of_headers = _members("headers", parts.get("headers", {}), {"set", "remove"})
    patch = Patch(
        set_headers=_read_set(of_headers.get("set", {})),
        remove=_read_removed(of_headers.get("remove", [])),
    )
    both = next((each for each in sorted(patch.remove) if each in patch.set_headers), None)
    if both is not None:
        raise WrongPatch("headers.remove", f"{_short(both)!r} is set and removed")
    if "body" in parts:
        patch = _with_body(patch, parts["body"])
    if not (patch.set_headers or patch.remove or patch.is_of_body):
        raise WrongPatch("", "says nothing: give headers to set or remove, or a change of the body")
    return patch


def _members(where: str, given: object, known: set[str]) -> Mapping[str, object]:
    if not isinstance(given, dict):
        raise WrongPatch(where, f"is an object with {_listed(known)}")
    strange = next((each for each in given if each not in known), None)
    if strange is not None:
        raise WrongPatch(_path(where, _short(strange)), f"is not known: there is {_listed(known)}")
    return given


def _listed(known: set[str]) -> str:
    return " and ".join(f"`{each}`" for each in sorted(known, reverse=True))


def _path(where: str, name: str) -> str:
    return f"{where}.{name}" if where else name


def _read_set(given: object) -> Mapping[str, str]:
    where = "headers.set"
    if not isinstance(given, dict) or len(given) > MOST_HEADERS:
        raise WrongPatch(where, f"is an object of {MOST_HEADERS} headers at most, with their texts")
    for name, text in given.items():
        if not isinstance(text, str):
            raise WrongPatch(f"{where}.{_short(name)}", "the value of a header is a text")
        why = why_never_set(name, text)
        if why is not None:
            raise WrongPatch(f"{where}.{_short(name)}", str(why))
    return given


def _read_removed(given: object) -> frozenset[str]:
    where = "headers.remove"
    if not isinstance(given, list) or len(given) > MOST_HEADERS:
        raise WrongPatch(where, f"is a list of {MOST_HEADERS} names of headers at most")
    for at, name in enumerate(given):
        if not isinstance(name, str) or not 0 < len(name.encode(errors="replace")) <= LONGEST_NAME:
            raise WrongPatch(f"{where}.{at}", str(EditRefusal.NO_NAME))
        if is_locked(name):
            raise WrongPatch(f"{where}.{at}", f"{name}: {EditRefusal.LOCKED}")
    return frozenset(given)


def _with_body(patch: Patch, given: object) -> Patch:
    if isinstance(given, list):
        if not 0 < len(given) <= MOST_OPERATIONS:
            raise WrongPatch("body", f"has 1 to {MOST_OPERATIONS} operations of JSON Patch")
        return replace(patch, operations=tuple(map(_read_operation, range(len(given)), given)))
    if not isinstance(given, dict):
        raise WrongPatch("body", 'is a list, a JSON Patch, or {"replace": [pattern, text]}')
    both = _members("body", given, {"replace"}).get("replace")
    if not isinstance(both, list) or len(both) != 2 or not all(isinstance(e, str) for e in both):  # noqa: PLR2004 - a pair
        raise WrongPatch("body.replace", "is a list of two texts: a pattern, and what replaces it")
    return replace(patch, replacement=_read_replacement(*both))


def _read_operation(at: int, given: object) -> _Operation:
    where = f"body.{at}"
    if not isinstance(given, dict):
        raise WrongPatch(where, "is an object with `op` and `path`")
    op, path = given.get("op"), given.get("path")
    if not isinstance(op, str) or op not in _OPERATIONS:
        raise WrongPatch(f"{where}.op", f"is one of {', '.join(sorted(_OPERATIONS))}")
    if not isinstance(path, str):
        raise WrongPatch(f"{where}.path", "is a JSON pointer, such as /customer/id")
    if op in _FROM and not isinstance(given.get("from"), str):
        raise WrongPatch(f"{where}.from", f"{op} takes `from`, a JSON pointer")
    if op in _VALUE and "value" not in given:
        raise WrongPatch(f"{where}.value", f"{op} takes a `value`")
    for name in ("path", "from") if op in _FROM else ("path",):
        try:
            JsonPatch([{"op": "remove", "path": given[name]}])
        except JsonPointerException as error:
            raise WrongPatch(f"{where}.{name}", f"is no JSON pointer: {error}") from None
    deepens = op in _FROM or (op != "test" and isinstance(given.get("value"), dict | list))
    which = f"operation {at + 1} of the patch"
    return _Operation(
        words=f"{which} ({op} {_short(path) or 'all'})",
        told=f"{which} ({op})",
        patch=JsonPatch([given]),
        deepens=deepens,
        copies=op == "copy",
    )


def _read_replacement(pattern: str, text: str) -> _Replacement:
    where = "body.replace.0"
    options = re2.Options()
    options.max_mem, options.log_errors = _MEMORY, False
    try:
        found = re2.compile(pattern.encode(), options)
    except UnicodeEncodeError:
        raise WrongPatch(where, "has half of a character, which no text has") from None
    except re2.error as error:
        words = error.args[0].decode(errors="replace")[:_SHOWN]
        raise WrongPatch(where, f"is no regular expression of RE2: {words}") from None
    if found.programsize > _MOST_STEPS:
        raise WrongPatch(where, "takes too many steps: repeat less often")
    if found.search(b"") is not None:
        raise WrongPatch(where, "fits where nothing stands: it would be found everywhere")
    return _Replacement(found=found, parts=tuple(_read_parts(text, found.groups)))


_REFERENCE = re.compile(r"\\(.?)", re.DOTALL)


def _read_parts(text: str, groups: int) -> Iterator[bytes | int]:
    r"""Yield the texts and groups of what replaces: `\1` is a group, `\0` all, `\\` a backslash."""
    where, at = "body.replace.1", 0
    try:
        text.encode()
    except UnicodeEncodeError:
        raise WrongPatch(where, "has half of a character, which no text has") from None
    for each in _REFERENCE.finditer(text):
        yield text[at : each.start()].encode()
        at = each.end()
        if each[1] == "\\":
            yield b"\\"
        elif not (each[1].isascii() and each[1].isdecimal()):
            raise WrongPatch(where, r"has a backslash: write \\ for one, and \1 for a group")
        elif int(each[1]) > groups:
            raise WrongPatch(where, f"names group {each[1]}, and the pattern has {groups}")
        else:
            yield int(each[1])
    yield text[at:].encode()


def patch_message(
    codec: PropertyCodec, original: StoredOriginal, patch: Patch
) -> StoredOriginal | PatchRefused:
    """Return a message as a patch makes it, or why it cannot be patched.

    What is not named stays byte for byte as it came. Of a body that a JSON Patch has changed this
    holds for its numbers and for the order of its members, and not for spaces and escapes.
    """
    try:
        properties = codec.read(original.raw)
    except UnreadableProperties as error:
        return PatchRefused(reason=str(PatchRefusal.UNREADABLE), detail=str(error)[:_SHOWN])
    found = Body(properties, original.body)
    text = _patch_body(patch, found) if patch.is_of_body else None
    if isinstance(text, PatchRefused):
        return text
    # What JSON Patch makes of JSON is JSON.
    wanted = Changes(
        set_headers=patch.set_headers,
        remove=patch.remove,
        text=text,
        broken=bool(patch.operations),
    )
    changed = change(properties, found, wanted, original.dialect)
    if isinstance(changed, EditRefused):
        return _refuse(changed)
    if len(changed.body) - len(original.body) > MOST_GROWTH:
        return PatchRefused(reason=str(PatchRefusal.GROWN))
    raw = original.raw
    if changed.set_headers or changed.removed:
        edit = Edit(drop_headers=patch.remove.__contains__, set_headers=changed.set_headers)
        try:
            raw = codec.edit(raw, edit)
        except NotOfItsType as error:
            return _refuse(EditRefused(why=EditRefusal.OTHER_TYPE, about=str(error)))
        except (ValueError, OverflowError):
            return PatchRefused(reason=str(EditRefusal.WRONG_TEXT))
    too_large = why_grown_too_large(codec, original, raw, changed.body)
    if too_large is not None:
        return PatchRefused(reason=str(PatchRefusal.DOES_NOT_FIT), detail=too_large)
    return replace(original, raw=raw, body=changed.body)


def _refuse(refused: EditRefused) -> PatchRefused:
    match refused.why:
        case EditRefusal.NOTHING:
            return PatchRefused(reason=str(PatchRefusal.NOTHING))
        case EditRefusal.BROKEN:
            return PatchRefused(reason=str(PatchRefusal.BROKEN), detail=refused.about)
        case EditRefusal.NOT_IN_CHARSET:
            return PatchRefused(reason=str(PatchRefusal.NOT_IN_CHARSET), detail=refused.about)
        case _:
            return PatchRefused(reason=str(refused))


def _patch_body(patch: Patch, found: Body) -> str | PatchRefused:
    if found.text is None:
        is_large = len(found.plain) > MOST_BYTES
        why = PatchRefusal.TOO_LARGE if is_large else PatchRefusal.NO_TEXT
        return PatchRefused(reason=str(why))
    if patch.replacement is not None:
        return _replace(patch.replacement, found.text)
    mark = "\ufeff" if found.text.startswith("\ufeff") else ""
    made = _apply(patch.operations, found.text.removeprefix(mark), lambda text: _fits(found, text))
    return mark + made if isinstance(made, str) else made


def _fits(found: Body, text: str) -> bool:
    return found.encode(text) is not None


def _apply(
    operations: Sequence[_Operation], text: str, fits: Callable[[str], bool]
) -> str | PatchRefused:
    """Apply the operations of a JSON Patch to a text, one after the other.

    One at a time: copies of copies would fill the memory before the last one is done.
    """
    try:
        value = _read_body(text)
    except NotJson as error:
        return _refuse_json(error)
    before = write_json(value, ascii_only=text.isascii())
    for each in operations:
        try:
            value = each.patch.apply(value, in_place=True)
        except JsonPatchTestFailed:
            return _refuse_operation(each, PatchRefusal.TEST_FAILED)
        except (JsonPatchException, JsonPointerException):
            return _refuse_operation(each, PatchRefusal.NOT_THERE)
        too_much = _why_too_much(value, each)
        if too_much is not None:
            return PatchRefused(reason=str(too_much))
    after = write_json(value, ascii_only=text.isascii())
    if after == before:
        return text
    if len(after) > MOST_BYTES:
        return PatchRefused(reason=str(PatchRefusal.TOO_LARGE))
    # What a charset does not know can be escaped: JSON is JSON all the same.
    return after if fits(after) else write_json(value, ascii_only=True)


def _refuse_operation(operation: _Operation, why: PatchRefusal) -> PatchRefused:
    return PatchRefused(reason=f"{operation.words} {why}", told=f"{operation.told} {why}")


def _read_body(text: str) -> object:
    """Return the value of a body. Raises NotJson."""
    value = read_json(text)
    if depth_of(value) > DEEPEST:
        raise TooDeep
    return value


def _why_too_much(value: object, after: _Operation) -> PatchRefusal | None:
    if after.deepens and depth_of(value) > DEEPEST:
        return PatchRefusal.TOO_DEEP
    if after.copies and len(write_json(value, ascii_only=False)) > MOST_BYTES:
        return PatchRefusal.TOO_LARGE
    return None


def _refuse_json(error: NotJson) -> PatchRefused:
    match error:
        case NamedTwice():
            return PatchRefused(reason=str(PatchRefusal.NAMED_TWICE))
        case TooDeep():
            return PatchRefused(reason=str(PatchRefusal.TOO_DEEP))
        case _:
            return PatchRefused(reason=str(PatchRefusal.NO_JSON), detail=str(error)[:_SHOWN])


def _replace(replacement: _Replacement, text: str) -> str | PatchRefused:
    try:
        content = text.encode()
    except UnicodeEncodeError:
        return PatchRefused(reason=str(PatchRefusal.NO_TEXT))
    out, at, size = [], 0, len(content)
    for each in replacement.found.finditer(content):
        made = b"".join(
            part if isinstance(part, bytes) else each[part] or b"" for part in replacement.parts
        )
        out += [content[at : each.start()], made]
        at = each.end()
        size += len(made) - (each.end() - each.start())
        if size > MOST_BYTES:
            return PatchRefused(reason=str(PatchRefusal.TOO_LARGE))
    return b"".join([*out, content[at:]]).decode(errors="replace")


@dataclass(frozen=True, slots=True, kw_only=True)
class PatchedSample:
    """A message before and after a patch. The bodies are None where they are no text."""

    unique_message_id: str
    headers: Sequence[HeaderChange]
    body_changed: bool
    body_before: str | None
    body_after: str | None


def show_sample(
    codec: PropertyCodec, unique_message_id: str, before: StoredOriginal, after: StoredOriginal
) -> PatchedSample:
    """Return what a patch changes of a message that it can be applied to."""
    was, now = codec.read(before.raw), codec.read(after.raw)
    return PatchedSample(
        unique_message_id=unique_message_id,
        headers=compare_headers(was, now),
        body_changed=before.body != after.body,
        body_before=Body(was, before.body).text,
        body_after=Body(now, after.body).text,
    )


def _short(name: str) -> str:
    return "".join(each if each.isprintable() else "?" for each in name[:_SHOWN])
