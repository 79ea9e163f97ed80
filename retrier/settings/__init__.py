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
from retrier.settings.remarks import find_remarks, is_database_named

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
    "find_remarks",
    "is_database_named",
    "load_settings",
    "redact",
]
