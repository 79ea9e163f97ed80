"""The routes, one module per noun; where two match, the more telling one is listed first."""

from retrier.api.routes import (
    batches,
    bodies,
    errors,
    event_log,
    groups,
    health,
    operations,
    retries,
    root,
)

ROUTERS = (
    root.router,
    health.router,
    errors.router,
    retries.router,
    groups.router,
    bodies.router,
    operations.router,
    batches.router,
    event_log.router,
)
