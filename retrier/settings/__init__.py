"""The settings: a YAML file and the environment become frozen values, or a list of problems."""

from retrier.settings.addresses import redact
from retrier.settings.env_file import read_env_file
from retrier.settings.loading import find_used_knobs, load_settings, name_database, read_file
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
from retrier.settings.policies import PoliciesSection
from retrier.settings.policy_definition import find_policy_warnings, make_definition
from retrier.settings.policy_file import check_policies, load_policies, name_settings_queues
from retrier.settings.remarks import find_remarks, is_database_named
from retrier.settings.yaml_text import find_section, read_text

__all__ = [
    "Api",
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
