"""Which failed imports an act is about: those that were picked, or all that match."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated

from fastapi import Query

from retrier.domain.retry_operation import Plan
from retrier.store.engine.database import Database
from retrier.store.queries.imports import ImportSelection, list_imports, plan_imports
from retrier.store.queries.ordering import PageRequest
from retrier.web.forms import Form

MOST_AT_ONCE = 200
"""Sent or deleted by one request, which a person waits for: each is a transaction of its own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChoiceQuery:
    """The same as it stands in an address, or in the hidden fields of a form."""

    error_queue: str = ""
    everything: Annotated[str, Query(alias="all")] = ""
    ids: Annotated[Sequence[str], Query(alias="id")] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """The imports. `ids` are those that one request acts on, of `total`; the oldest come first.

    `everything` says that all of an error queue are meant, or all there are; `plan` holds an act
    to what was counted of them, up to `counted_to`.
    """

    ids: tuple[str, ...]
    total: int
    error_queue: str | None
    everything: bool
    counted_to: int | None = None
    plan: str = ""

    @property
    def fields(self) -> Mapping[str, Sequence[str]]:
        """The hidden fields that say it again."""
        if self.everything:
            return {"all": ["1"], "error_queue": [self.error_queue or ""], "plan": [self.plan]}
        return {"id": self.ids}


def choose(db: Database, act: str, query: ChoiceQuery, plan: Plan | None = None) -> Choice:
    """Return what is meant, as things are now, or what a plan holds. Raises DatabaseUnavailable."""
    queue = query.error_queue or None
    if not query.everything:
        ids = tuple(dict.fromkeys(query.ids))[:MOST_AT_ONCE]
        return Choice(ids=ids, total=len(ids), error_queue=None, everything=False)
    counted = plan or plan_imports(db, act, queue)
    wanted = ImportSelection(error_queue=queue, ascending=True, counted_to=counted.counted_to)
    found = list_imports(db, wanted, PageRequest(size=MOST_AT_ONCE))
    ids = tuple(each.import_id for each in found.items)
    return Choice(
        ids=ids,
        total=found.total,
        error_queue=queue,
        everything=True,
        counted_to=counted.counted_to,
        plan=counted.token,
    )


def read_choice(form: Form) -> ChoiceQuery:
    """Return what a form names."""
    return ChoiceQuery(
        error_queue=next(iter(form.values("error_queue")), ""),
        everything=form.text("all"),
        ids=[each[:100] for each in form.values("id")],
    )
