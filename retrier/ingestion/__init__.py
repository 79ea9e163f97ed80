"""From error queue to database: reads what arrives, has it recorded, then acknowledges it."""
