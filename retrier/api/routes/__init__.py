"""The routes, one module per noun; where two match, the more telling one is listed first."""

from retrier.api.routes import (
    archive,
    batches,
    bodies,
    errors,
    event_log,
    groups,
    health,
    ledger,
    operations,
    pending_retries,
    redirects,
    retries,
    root,
)

ROUTERS = (
    root.router,
    health.router,
    errors.router,
    retries.router,
    archive.router,
    pending_retries.router,
    redirects.router,
    groups.router,
    bodies.router,
    operations.router,
    batches.router,
    event_log.router,
    ledger.router,
)
