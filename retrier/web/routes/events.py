"""What open pages follow: the numbers that change in them."""

from fastapi import APIRouter, Request, Response

from retrier.web.live_page import LiveAnswer
from retrier.web.parts import Parts

router = APIRouter(prefix="/events")


@router.get("/page", response_class=Response)
async def follow_page(
    request: Request, parts: Parts, since: str = "", message: str = ""
) -> Response:
    """Send what changed since a version, and then what changes; the answer does not end.

    `message` is the id of the message whose page it is.
    """

    def note_reader() -> None:
        parts.counts.note_reader_of(message)

    note_reader()
    known = request.headers.get("last-event-id") or since
    return LiveAnswer(parts.live, known, note_reader)
