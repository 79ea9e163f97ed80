"""What the first page after a start needs, made before anybody asks for it."""

from retrier.domain.failed_message import FailedMessageStatus
from retrier.domain.selection import Selection
from retrier.store.queries.messages import list_messages
from retrier.store.queries.ordering import Order, PageRequest
from retrier.web.parts import PageParts
from retrier.web.templating import environment

_FIRST = ("overview.html", "messages.html", "message.html")
"""Templates that most people see first; each is compiled once, with all that it imports."""
_ONE = PageRequest(size=1)


def warm_up(parts: PageParts) -> None:
    """Compile templates and the statement of a list: 100 ms and more. Raises DatabaseUnavailable."""
    for name in _FIRST:
        environment().get_template(name)
    unresolved = Selection(statuses=frozenset({FailedMessageStatus.UNRESOLVED}))
    list_messages(parts.db, unresolved, Order(), _ONE, parts.codec)
