"""From error queue to store: understands what arrives, has it recorded, then acknowledges it."""
