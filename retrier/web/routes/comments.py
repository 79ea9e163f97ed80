"""Comments on groups: the form, written, taken away."""

from dataclasses import dataclass

from fastapi import APIRouter, HTTPException, Request, Response

from retrier.domain.comments import LONGEST, Comment, CommentRefusal
from retrier.domain.identity import canonical
from retrier.store.queries.comments import find_comments
from retrier.web.forms import SentForm, local
from retrier.web.parts import Parts
from retrier.web.selected import title_of
from retrier.web.showing import see_other, show
from retrier.web.wording import sentence

router = APIRouter(prefix="/groups/{group_id}/comment")

_GROUPS = "/groups"


@dataclass(frozen=True, slots=True, kw_only=True)
class CommentView:
    """The form: the group, its comment as it is, and the page to go back to."""

    group_id: str
    title: str
    comment: Comment | None
    back: str
    longest: int = LONGEST


@router.get("")
def get_comment(request: Request, group_id: str, parts: Parts, back: str = _GROUPS) -> Response:
    """Show the comment of a group, and the form that changes it."""
    title = title_of(parts, group_id)
    if title is None:
        raise HTTPException(404, sentence(CommentRefusal.UNKNOWN))
    key = canonical(group_id)
    view = CommentView(
        group_id=key,
        title=title,
        comment=find_comments(parts.db, [key]).get(key),
        back=local(back, _GROUPS),
    )
    return show(request, "comment.html", view, current=_GROUPS)


@router.post("")
def write_comment(group_id: str, parts: Parts, form: SentForm) -> Response:
    """Comment on a group, in place of an earlier comment."""
    # Not `form.text`: a comment may have several lines, and is refused rather than cut.
    written = next(iter(form.values("comment")), "")
    refusal = parts.gateway.comments.write(group_id, written, form.requested_by)
    return _done(refusal, form.next("commented", _GROUPS))


@router.post("/delete")
def delete_comment(group_id: str, parts: Parts, form: SentForm) -> Response:
    """Take the comment of a group away; one that is gone already is gone, too."""
    refusal = parts.gateway.comments.delete(group_id, form.requested_by)
    return _done(refusal, form.next("comment-deleted", _GROUPS))


def _done(refusal: CommentRefusal | None, to: str) -> Response:
    match refusal:
        case None:
            return see_other(to)
        case CommentRefusal.UNKNOWN:
            raise HTTPException(404, sentence(refusal))
        case CommentRefusal.EMPTY | CommentRefusal.TOO_LONG:
            raise HTTPException(422, sentence(refusal))
