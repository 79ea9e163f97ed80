"""What all parts of the settings have in common: frozen, and closed to unknown keys."""

from pydantic import BaseModel, ConfigDict


class Section(BaseModel):
    """A part of the settings."""

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)
