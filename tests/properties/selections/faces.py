"""The faces: what each lists and counts for a condition, and how it is asked for an act."""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import unescape
from typing import Any, Protocol
from urllib.parse import parse_qs, urlsplit

import httpx
from typer.testing import Result

from tests.properties.selections.meaning import Conditions
from tests.properties.selections.stock import Stock
from tests.support.web import forms_of

ACTS = ("archive", "unarchive", "resolve", "retry")
ONLY_IN_LISTS = frozenset(
    ("status", "queueaddress", "message_id", "modified", "archived_by", "id_prefix")
)
"""Conditions that no act takes from the API and from the command line."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Listed:
    """What a face lists: the ids in order from all pages, and each total that it says."""

    ids: Sequence[str]
    totals: frozenset[int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """How a list is sorted, and how many items a page has where a face lets one choose.

    `by_place` follows it from place to place, as the API lets one do, and not by page numbers.
    """

    sort: str = "time_of_failure"
    descending: bool = True
    per_page: int = 500
    by_place: bool = False


class Face(Protocol):
    """One of the faces."""

    name: str

    def can_list(self, wanted: Conditions) -> bool:
        """Say whether it has all of these conditions."""
        ...

    def list(self, stock: Stock, wanted: Conditions, order: Order) -> Listed:
        """Return all that it lists."""
        ...

    def preview(self, stock: Stock, act: str, wanted: Conditions) -> int:
        """Return how many messages it says that the act would take."""
        ...

    def act(self, stock: Stock, act: str, wanted: Conditions) -> str:
        """Do it; return the id of the operation."""
        ...

    def undo(self, stock: Stock, operation_id: str) -> None:
        """Take an archive back."""
        ...


class ByApi:
    """Requests over HTTP."""

    name = "API"

    def can_list(self, wanted: Conditions) -> bool:  # noqa: ARG002 - it has all
        return True

    def list(self, stock: Stock, wanted: Conditions, order: Order) -> Listed:
        params = {
            **wanted,
            "sort": order.sort,
            "direction": "desc" if order.descending else "asc",
            "per_page": order.per_page,
        }
        ids: list[str] = []
        totals: set[int] = set()
        where = {"after": "*"} if order.by_place else {"page": "1"}
        while where:
            answer = stock.cli.api.http.get("/api/errors", params={**params, **where})
            assert answer.status_code == 200, answer.text
            items = answer.json()
            ids += [each["id"] for each in items]
            totals.add(int(answer.headers["Total-Count"]))
            where = _next(answer, where) if len(items) == order.per_page else {}
        return Listed(ids=ids, totals=frozenset(totals))

    def count(self, stock: Stock, wanted: Conditions) -> int:
        """Return the total of the list, asked for without its items."""
        answer = stock.cli.api.http.head("/api/errors", params=wanted)
        assert answer.status_code == 200, answer.text
        return int(answer.headers["Total-Count"])

    def preview(self, stock: Stock, act: str, wanted: Conditions) -> int:
        return int(self._post(stock, f"{_path(act)}/preview", self._body(act, wanted))["total"])

    def act(self, stock: Stock, act: str, wanted: Conditions) -> str:
        done = self._post(stock, _path(act), self._body(act, wanted))
        return str(done["operation_id"])

    def undo(self, stock: Stock, operation_id: str) -> None:
        self._post(stock, f"archive_operations/{operation_id}/undo", {})

    def _body(self, act: str, wanted: Conditions) -> dict[str, object]:
        selection = as_selection(wanted)
        return {"selection": selection} if act == "retry" else {"act": act, "selection": selection}

    def _post(self, stock: Stock, path: str, body: object) -> Any:
        answer = stock.cli.api.http.post(f"/api/{path}", json=body)
        assert answer.is_success, answer.text
        return answer.json()


class ByCommand:
    """The command line."""

    name = "CLI"

    def can_list(self, wanted: Conditions) -> bool:
        excludes = wanted.get("status", "").startswith("-")
        return not excludes and wanted.keys().isdisjoint(("queueaddress", "modified", "id_prefix"))

    def list(self, stock: Stock, wanted: Conditions, order: Order) -> Listed:
        sorting = [f"--sort={order.sort}", *([] if order.descending else ["--ascending"])]
        words = ["errors", "list", *as_options(wanted), *sorting]
        ids = stock.cli.lines(*words, "--ids", "--limit=100000")
        counted = json.loads(_done(stock.cli.run(*words, "--json", "--per-page=1")).stdout)
        return Listed(ids=ids, totals=frozenset([counted["total"]]))

    def preview(self, stock: Stock, act: str, wanted: Conditions) -> int:
        words = [act, *as_options(wanted), *([] if wanted else ["--all"])]
        return int(json.loads(_done(stock.cli.run(*words, "--dry-run", "--json")).stdout)["total"])

    def act(self, stock: Stock, act: str, wanted: Conditions) -> str:
        result = stock.cli.run(act, *as_options(wanted), *([] if wanted else ["--all"]), "--json")
        assert result.exit_code == 0 or json.loads(result.stdout)["total"] == 0, result.output
        return str(json.loads(result.stdout)["operation_id"])

    def undo(self, stock: Stock, operation_id: str) -> None:
        stock.cli.run("archive-operations", "undo", operation_id)


class ByPage:
    """The operator's page, through its links and forms."""

    name = "page"

    def can_list(self, wanted: Conditions) -> bool:
        return wanted.keys().isdisjoint(("queueaddress", "modified", "id_prefix"))

    def list(self, stock: Stock, wanted: Conditions, order: Order) -> Listed:
        values = {
            **_with_status(wanted),
            "sort": order.sort,
            "direction": "" if order.descending else "asc",
        }
        ids: list[str] = []
        totals: set[int] = set()
        number = 1
        while True:
            html = stock.web.get("/messages", **values, page=str(number))
            rows = re.findall(r'data-row="message/([^"]*)"', html)
            ids += rows
            totals |= _totals(html)
            if len(rows) < _PAGE:
                return Listed(ids=ids, totals=frozenset(totals or {0}))
            number += 1

    def preview(self, stock: Stock, act: str, wanted: Conditions) -> int:
        return _counted(self._question(stock, act, wanted))

    def act(self, stock: Stock, act: str, wanted: Conditions) -> str:
        fields = forms_of(self._question(stock, act, wanted))[f"/messages/{act}"]
        answer = stock.web.post(f"/messages/{act}", fields)
        assert answer.status_code == 303, answer.text
        (done,) = parse_qs(urlsplit(answer.headers["Location"]).query)["done"]
        return done.partition(":")[2]

    def undo(self, stock: Stock, operation_id: str) -> None:
        path = f"/archive_operations/{operation_id}"
        forms = forms_of(stock.web.get(path))
        if f"{path}/undo" in forms:
            answer = stock.web.post(f"{path}/undo", forms[f"{path}/undo"])
            assert answer.status_code == 303, answer.text

    def _question(self, stock: Stock, act: str, wanted: Conditions) -> str:
        status = {"unarchive": "archived"}.get(act, "unresolved")
        values = {**wanted, "status": status, "act": act, "all": "1"}
        return stock.web.get("/messages/selected", **values)


_PAGE = 50
"""Rows of a page."""
API, CLI, PAGE = ByApi(), ByCommand(), ByPage()
FACES: Sequence[Face] = (API, CLI, PAGE)


def _next(answer: httpx.Response, where: Mapping[str, str]) -> dict[str, str]:
    """Return the parameters of the next page."""
    if "page" in where:
        return {"page": str(int(where["page"]) + 1)}
    return {"after": answer.headers["Next-After"]}


def as_selection(wanted: Conditions) -> dict[str, object]:
    """Return conditions as the body of a request says them; without one, everything."""
    said: dict[str, object] = dict(wanted)
    if "attempts_at_least" in said:
        said["attempts_at_least"] = int(wanted["attempts_at_least"])
    return said or {"all": True}


def as_options(wanted: Conditions) -> list[str]:
    """Return conditions as options of a command."""
    parts = {name: value for name, value in wanted.items() if name != "status"}
    options = [f"--{name.replace('_', '-')}={value}" for name, value in parts.items()]
    statuses = wanted["status"].split(",") if "status" in wanted else []
    return [*options, *(f"--status={each}" for each in statuses)]


def _path(act: str) -> str:
    return "operations" if act == "retry" else "archive_operations"


def _with_status(wanted: Conditions) -> Mapping[str, str]:
    """Name the status: without it the page shows what is unresolved."""
    return {"status": "all", **wanted}


def _totals(html: str) -> set[int]:
    text = re.sub(r"<[^>]*>", " ", html)
    said = re.findall(r"of ([\d,]+) messages?\b| all ([\d,]+)\s+that match", text)
    numbers = [one or other for one, other in said]
    return {int(each.replace(",", "")) for each in numbers}


def _counted(html: str) -> int:
    """Return the number on the button that confirms; 0 if there is none."""
    button = re.search(r'<button class="go">([^<]*)</button>', html)
    number = re.search(r"[\d,]+", unescape(button[1])) if button else None
    return int(number[0].replace(",", "")) if number else 0


def _done(result: Result) -> Result:
    assert result.exit_code == 0, result.output
    return result
