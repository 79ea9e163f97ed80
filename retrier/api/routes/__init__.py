"""The routes, one module per noun. If two match a path, the more specific one is listed first."""

from retrier.api.routes import (
    archive,
    archive_operations,
    errors,
    events,
    groups,
    history,
    imports,
    message_history,
    operation_requests,
    operations,
    redirects,
    retries,
    service,
    steering,
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
    archive_operations.router,
    retries.pending,
    imports.router,
    redirects.router,
    groups.router,
    history.router,
    operation_requests.router,
    operations.router,
    events.router,
    steering.router,
    service.router,
)
"""Routes that use the database. Each request needs a place (`take_place`)."""
