"""The database: the only SQL. One function = one transaction = one verb of the domain."""
