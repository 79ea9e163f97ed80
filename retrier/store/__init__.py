"""The database: the only SQL. A module is a noun, a function one transaction or a part of one."""
