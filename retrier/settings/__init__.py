"""The settings: a YAML file and the environment become frozen values, or a list of problems."""

from retrier.settings.addresses import redact
from retrier.settings.loading import load_settings
from retrier.settings.model import (
    Api,
    Broker,
    Database,
    ErrorQueue,
    Ingestion,
    Log,
    Processor,
    Retention,
    Retries,
    Role,
    Settings,
)

__all__ = [
    "Api",
    "Broker",
    "Database",
    "ErrorQueue",
    "Ingestion",
    "Log",
    "Processor",
    "Retention",
    "Retries",
    "Role",
    "Settings",
    "load_settings",
    "redact",
]
