"""What messages are found by: reads the declared fields of what is stored already."""

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

from retrier.api.answers import Answer, Routes, present, told
from retrier.api.requests import InContext
from retrier.api.shapes import service as shapes

_LARGEST = 10**15

router = Routes(prefix="/api/search", tags=["search"])


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
