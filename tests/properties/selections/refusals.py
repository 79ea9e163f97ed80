"""Conditions that nobody understands: every face refuses them, names what is meant, does nothing."""

import json
import random
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from urllib.parse import urlencode

from tests.properties.selections.drawn_messages import QUEUES
from tests.properties.selections.faces import ONLY_IN_LISTS
from tests.properties.selections.stock import Stock

Pairs = Sequence[tuple[str, str]]

NAMES = (
    *("queue", "endpoint", "group", "exception_type", "message_type", "reason", "stream", "host"),
    *("process", "node", "failed_from", "failed_to", "attempts_at_least", "disposition", "text"),
)
"""Conditions that each face has, for lists and for acts."""

_REFUSED = frozenset((400, 422))
_USAGE = (1, 2)


@dataclass(frozen=True, slots=True, kw_only=True)
class Wrong:
    """Conditions with something wrong, and the word that each refusal has to say.

    `of_lists` says that lists refuse it, too: what is empty is no condition there, as fields of a
    form are sent empty.
    """

    kind: str
    given: Pairs
    says: str = ""
    of_lists: bool = True

    @property
    def meant(self) -> str:
        """What a refusal has to say."""
        return f"perhaps {self.says} is meant" if self.kind == "misspelled" else self.says


def draw_wrong(dice: random.Random) -> Wrong:
    """Draw conditions of which one is wrong, and perhaps one beside it that is right."""
    wrong = dice.choice(_KINDS)(dice)
    beside = ("queue", dice.choice(QUEUES))
    if wrong.kind == "twice" or dice.random() < 0.5 or "queue" in dict(wrong.given):
        return wrong
    return Wrong(
        kind=wrong.kind,
        given=[beside, *wrong.given],
        says=wrong.says,
        of_lists=wrong.of_lists,
    )


def _misspelled(dice: random.Random) -> Wrong:
    name = dice.choice(NAMES)
    at = dice.randrange(1, len(name))
    forms = (name[:-1], name + "s", name[:at] + name[at + 1 :], name[:at] + "x" + name[at:])
    written = dice.choice([each for each in forms if each not in NAMES])
    return Wrong(kind="misspelled", given=[(written, "a")], says=name)


def _twice(dice: random.Random) -> Wrong:
    name = dice.choice(("queue", "endpoint", "message_type", "reason", "host"))
    return Wrong(kind="twice", given=[(name, "a"), (name, dice.choice(("a", "b")))], says=name)


def _empty(dice: random.Random) -> Wrong:
    return Wrong(kind="empty", given=[(dice.choice(NAMES[:10]), "")], of_lists=False)


def _no_time(dice: random.Random) -> Wrong:
    name = dice.choice(("failed_from", "failed_to"))
    text = dice.choice(("yesterday", "2026-13-01", "2026-05-04T25:00", "12:00", " "))
    return Wrong(kind="no time", given=[(name, text)])


def _turned(dice: random.Random) -> Wrong:
    second = dice.randint(1, 9)
    times = (f"2026-05-04T12:00:0{second}Z", f"2026-05-04T12:00:0{second - 1}Z")
    return Wrong(kind="turned", given=list(zip(("failed_from", "failed_to"), times, strict=True)))


def _no_word(dice: random.Random) -> Wrong:
    return Wrong(
        kind="no word", given=[("disposition", dice.choice(("deadly", "dead ", "manual,dead")))]
    )


def _no_count(dice: random.Random) -> Wrong:
    return Wrong(
        kind="no count", given=[("attempts_at_least", dice.choice(("two", "-1", "1.5", " ")))]
    )


def _too_long(dice: random.Random) -> Wrong:
    name = dice.choice(("queue", "endpoint", "text", "reason"))
    return Wrong(kind="too long", given=[(name, dice.choice(("x" * 1025, "ä" * 513)))])


_KINDS: Sequence[Callable[[random.Random], Wrong]] = (
    *(_misspelled, _misspelled, _twice, _empty, _no_time, _turned, _no_word, _no_count),
    _too_long,
)


@dataclass(slots=True, kw_only=True)
class Refusals:
    """Asks each face for wrong conditions, and keeps what was not refused or not well."""

    stock: Stock
    dice: random.Random
    problems: list[str] = field(default_factory=list)
    tried: Counter[str] = field(default_factory=Counter)

    def ask(self) -> None:
        """Draw wrong conditions; ask each face for a list, a preview and an act with them."""
        wrong = draw_wrong(self.dice)
        act = self.dice.choice(("archive", "resolve", "unarchive", "retry"))
        asked = self._operations()
        self.tried[f"refusals: {wrong.kind}"] += 1
        self._ask_api(wrong, act)
        self._ask_command(wrong, act)
        self._ask_page(wrong, act)
        if self.stock.rows() != self.stock.stored or self._operations() != asked:
            self.problems.append(f"{wrong}: something was done")
            self.stock.give_back(self.stock.rows())

    def ask_for_unfit(self) -> None:
        """Ask for acts and conditions that do not go together."""
        asked = self._operations()
        http, web = self.stock.cli.api.http, self.stock.web.http
        for act, status in (
            ("retry", "archived"),
            ("archive", "resolved"),
            ("unarchive", "unresolved"),
        ):
            query = urlencode({"status": status, "act": act, "all": "1"})
            answer = web.get(f"/messages/selected?{query}")
            self._hold(answer.status_code == 400, f"page {act} of {status}", answer.text)
        for status in ("unresolvd", "archived,unresolvd", "-unresolvd", " "):
            says = "unresolved is meant" if status.strip() else "no status"
            listed = http.get("/api/errors", params={"status": status})
            self._hold(listed.status_code == 400 and says in listed.text, "API", listed.text)
            shown = web.get("/messages", params={"status": status})
            self._hold(shown.status_code == 400 and says in shown.text, "page", shown.text)
            told = self.stock.cli.run("errors", "list", f"--status={status}")
            self._hold(told.exit_code == 2 and "unresolved" in told.stderr, "CLI", told.output)
        for name in sorted(ONLY_IN_LISTS):
            body = {"act": "archive", "selection": {"queue": "a", name: "a"}}
            answer = http.post("/api/archive_operations", json=body)
            self._hold(answer.status_code == 422 and name in answer.text, name, answer.text)
        if self.stock.rows() != self.stock.stored or self._operations() != asked:
            self.problems.append("unfit: something was done")

    def _ask_api(self, wrong: Wrong, act: str) -> None:
        http = self.stock.cli.api.http
        listed = http.get(f"/api/errors?{urlencode(wrong.given)}")
        if wrong.of_lists:
            refused = listed.status_code in _REFUSED and wrong.meant in listed.text
            self._hold(refused, f"API list {wrong}", listed.text)
        path = "operations" if act == "retry" else "archive_operations"
        for more in ("/preview", ""):
            answer = http.post(
                f"/api/{path}{more}",
                content=_as_json(act, wrong.given),
                headers={"Content-Type": "application/json"},
            )
            refused = answer.status_code in _REFUSED and wrong.meant in answer.text
            self._hold(refused, f"API {act}{more} {wrong}", answer.text)

    def _ask_command(self, wrong: Wrong, act: str) -> None:
        options = [f"--{name.replace('_', '-')}={value}" for name, value in wrong.given]
        says = f"--{wrong.says.replace('_', '-')}" if wrong.says else ""
        for words in (("errors", "list"), (act, "--dry-run"), (act,)):
            result = self.stock.cli.run(*words, *options)
            refused = result.exit_code in _USAGE and says in result.stderr
            self._hold(refused, f"CLI {words} {wrong}", result.output)

    def _ask_page(self, wrong: Wrong, act: str) -> None:
        if not wrong.of_lists:
            return
        web = self.stock.web.http
        status = "archived" if act == "unarchive" else "unresolved"
        query = urlencode([("status", status), *wrong.given])
        listed = web.get(f"/messages?{query}")
        if wrong.kind == "misspelled":
            noted = f"perhaps <b>{wrong.says}</b> is meant" in listed.text
            acts = 'name="act"' in listed.text
            self._hold(noted and not acts, f"page list {wrong}", f"noted {noted}, acts {acts}")
        else:
            self._hold(listed.status_code == 400, f"page list {wrong}", listed.text[:80])
        asked = web.get(f"/messages/selected?{query}&act={act}&all=1")
        refused = asked.status_code == 400 and wrong.meant in asked.text
        self._hold(refused, f"page {act} {wrong}", str(asked.status_code))

    def _hold(self, refused: bool, where: str, answer: str) -> None:  # noqa: FBT001
        if not refused:
            self.problems.append(f"{where}: not refused, or not well: {answer[:300]}")

    def _operations(self) -> tuple[int, int]:
        api = self.stock.cli.api.http
        counts = (
            api.get(f"/api/{path}?per_page=1").headers["Total-Count"]
            for path in ("operations", "archive_operations")
        )
        retries, archives = map(int, counts)
        return retries, archives


def _as_json(act: str, given: Pairs) -> str:
    """Write a body as text: a member may stand in it twice."""
    members = ", ".join(f"{json.dumps(name)}: {_value(name, value)}" for name, value in given)
    doing = "" if act == "retry" else f'"act": "{act}", '
    return f'{{{doing}"selection": {{{members}}}}}'


def _value(name: str, value: str) -> str:
    whole = name == "attempts_at_least" and value.lstrip("-").isdecimal()
    return value if whole else json.dumps(value)
