"""Redirects as JSON (ServiceControl: RedirectsQueryModel)."""

from retrier.api.answers import Json, time
from retrier.store.queries.redirects import Redirect


def redirect(shown: Redirect) -> Json:
    """Show one redirect."""
    return {
        "message_redirect_id": shown.redirect_id,
        "from_physical_address": shown.from_queue,
        "to_physical_address": shown.to_queue,
        "last_modified": time(shown.modified_at),
    }
