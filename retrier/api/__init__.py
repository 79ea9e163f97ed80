"""The HTTP API: ServiceControl's routes for failed messages, and Retrier's own beside them."""
