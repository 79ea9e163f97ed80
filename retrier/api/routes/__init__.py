"""The routes, one module per noun. If two match a path, the more specific one is listed first."""

from retrier.api.routes import (
    archive,
    errors,
    events,
    groups,
    imports,
    message_history,
    operations,
    redirects,
    retries,
    service,
)

WATCHING = (service.watching,)
"""Routes of every process, whatever its roles."""

FOLLOWING = (events.following,)
"""Routes that do not end: each has a place of its own (`LiveFeed`)."""

WORKING = (
    errors.router,
    message_history.router,
    retries.router,
    archive.router,
    retries.pending,
    imports.router,
    redirects.router,
    groups.router,
    operations.router,
    events.router,
    service.router,
)
"""Routes that use the database. Each request needs a place (`take_place`)."""
