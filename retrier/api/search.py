"""What messages are found by: one question for all of it; reads declared fields of what is stored."""

from typing import Annotated

from fastapi import Query, Request
from pydantic import BaseModel, ConfigDict, Field

from retrier.api.answers import Answer, Routes, answer, present, told
from retrier.api.parts import Parts
from retrier.api.requests import InContext
from retrier.api.shapes import service as shapes
from retrier.store.words import get_lag

_LARGEST = 10**15

router = Routes(prefix="/api/search", tags=["search"])


Wanted = Annotated[
    str,
    Query(
        description="an id, field=value, or words; what stands in quotation marks is a phrase, or one value"
    ),
]


@router.head("")
@router.get("")
def find_anything(request: Request, parts: Parts, q: Wanted = "") -> Answer[shapes.SearchAnswer]:
    """Find what a text names, and how many messages are found by it, each way."""
    found = parts.search(q)
    lag = get_lag(parts.db) if parts.full_text else None
    shown: shapes.SearchAnswer = {
        "named": [{"kind": str(each.kind), "id": each.key} for each in found.named],
        "found": [
            {
                "by": str(each.way.by),
                "conditions": dict(each.way.conditions),
                "count": each.count,
                "more": each.more,
            }
            for each in found.ways
        ],
        "undeclared": list(parts.undeclared_in(q)),
        "full_text": {
            "enabled": parts.full_text,
            "allowed": parts.shows_content,
            "unread": 0 if lag is None else lag.waiting,
            "backlog": 0 if lag is None else lag.backlog,
            "behind_seconds": 0.0 if lag is None else lag.seconds,
        },
    }
    return answer(request, present(shown))


class Reindexing(BaseModel):
    """Where it goes on: behind the message of this number."""

    model_config = ConfigDict(extra="forbid", strict=True)

    after: Annotated[int, Field(ge=0, le=_LARGEST)] = 0


@router.post("/reindex", status_code=200)
def reindex(body: Reindexing, context: InContext) -> Answer[shapes.Reindexed]:
    """Read the declared fields of the next stored messages, 1000 at most."""
    done = context.gateway.read_fields_anew(body.after)
    shown: shapes.Reindexed = {
        "read": done.read,
        "values": done.values,
        "passed_over": done.passed_over,
        "after": done.after,
    }
    return told(present(shown))
