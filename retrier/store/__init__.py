"""The database: the only SQL. One function is one transaction and one verb of the domain."""
