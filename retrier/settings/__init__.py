"""The settings: a YAML file and the environment become frozen values, or a list of problems."""

from retrier.settings.environment import read_env_file
from retrier.settings.fields import redact
from retrier.settings.loading import (
    check_policies,
    find_remarks,
    find_section,
    find_used_knobs,
    is_database_named,
    load_policies,
    load_settings,
    name_database,
    name_settings_queues,
    read_file,
    read_text,
)
from retrier.settings.model import (
    Api,
    ApiTls,
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
from retrier.settings.policies import PoliciesSection, find_policy_warnings, make_definition

__all__ = [
    "Api",
    "ApiTls",
    "Broker",
    "Database",
    "ErrorQueue",
    "Ingestion",
    "Log",
    "PoliciesSection",
    "Processor",
    "Retention",
    "Retries",
    "Role",
    "Settings",
    "check_policies",
    "find_policy_warnings",
    "find_remarks",
    "find_section",
    "find_used_knobs",
    "is_database_named",
    "load_policies",
    "load_settings",
    "make_definition",
    "name_database",
    "name_settings_queues",
    "read_env_file",
    "read_file",
    "read_text",
    "redact",
]
