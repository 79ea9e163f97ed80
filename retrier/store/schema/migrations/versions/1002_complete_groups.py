"""Every cause is in a group of each classifier: what says no exception, type or endpoint as well.

Lists of groups hid such failures. A cause that is here already keeps its fingerprint, so the next
failure of its kind makes a second cause, in the same groups.
"""

from collections.abc import Mapping, Sequence
from types import MappingProxyType

import sqlalchemy as sa
from alembic import op

from retrier.domain.identity import md5_guid
from retrier.domain.text import clean
from retrier.store.schema.types import Id

revision = "1002"
down_revision = "1001"
branch_labels = None
depends_on = None

TITLES: Mapping[str, str] = MappingProxyType(
    {
        "Exception Type and Stack Trace": "no reason given: {queue}",
        "Message Type": "no message type: {queue}",
        "Endpoint Name": "no endpoint name: {queue}",
    }
)
"""By classifier, the group of a failure that says nothing for it."""

groups = sa.table(
    "failure_groups", sa.column("group_id", Id), sa.column("classifier"), sa.column("title")
)
members = sa.table("cause_groups", sa.column("cause_id"), sa.column("group_id", Id))
causes = sa.table("causes", sa.column("cause_id"), sa.column("queue"))


def upgrade() -> None:
    """Add the groups that are missing, and put the causes into them."""
    for classifier, title in TITLES.items():
        _complete(classifier, title)


def downgrade() -> None:
    """Leave the groups: the revision before understands them."""


def _complete(classifier: str, title: str) -> None:
    bind = op.get_bind()
    found = _find_without(bind, classifier)
    titles = {row["cause_id"]: clean(title.format(queue=row["queue"])) for row in found}
    ids = {text: md5_guid(classifier + text) for text in titles.values()}
    known = set(bind.execute(sa.select(groups.c.group_id)).scalars())
    new = [
        {"group_id": key, "classifier": classifier, "title": text}
        for text, key in ids.items()
        if key not in known
    ]
    if new:
        bind.execute(groups.insert(), new)
    if titles:
        named = [{"cause_id": cause, "group_id": ids[text]} for cause, text in titles.items()]
        bind.execute(members.insert(), named)


def _find_without(bind: sa.Connection, classifier: str) -> Sequence[sa.RowMapping]:
    has_one = (
        sa.exists()
        .where(members.c.cause_id == causes.c.cause_id, members.c.group_id == groups.c.group_id)
        .where(groups.c.classifier == classifier)
    )
    return bind.execute(sa.select(causes).where(~has_one)).mappings().all()
