"""The routes of the page, one module per noun. Of two that match, the first one answers."""

from retrier.web import static_files
from retrier.web.routes import (
    archived,
    archives,
    breakers,
    comments,
    event_log,
    events,
    groups,
    history,
    imports,
    message,
    messages,
    operations,
    overview,
    pending,
    person,
    policies,
    processor,
    redirects,
    retry_all,
    streams,
)

FREE = (static_files.router, events.router)
"""Routes that do not use the database; those of `events` do not end."""

WORKING = (
    overview.router,
    groups.router,
    comments.router,
    messages.router,
    message.router,
    archives.router,
    operations.router,
    archived.router,
    pending.router,
    history.router,
    event_log.router,
    processor.router,
    imports.router,
    policies.router,
    redirects.router,
    breakers.router,
    streams.router,
    retry_all.router,
    person.router,
)
"""Routes that use the database. Each request needs a place."""
