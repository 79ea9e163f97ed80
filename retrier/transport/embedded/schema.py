"""The tables of the broker's file."""

# AUTOINCREMENT: a number that came back would let an old tag settle a new message.
SCHEMA = """
CREATE TABLE holders (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    boot TEXT NOT NULL, space TEXT NOT NULL, pid INTEGER NOT NULL, started TEXT NOT NULL,
    lease REAL NOT NULL, until REAL NOT NULL
);
CREATE TABLE queues (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    name TEXT NOT NULL UNIQUE,
    single_active INTEGER NOT NULL,
    active INTEGER REFERENCES holders ON DELETE SET NULL
);
CREATE TABLE messages (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    queue INTEGER NOT NULL REFERENCES queues ON DELETE CASCADE,
    exchange TEXT NOT NULL, routing_key TEXT NOT NULL,
    holder INTEGER REFERENCES holders ON DELETE SET NULL,
    deliveries INTEGER NOT NULL DEFAULT 0
);
CREATE TABLE contents (
    message INTEGER PRIMARY KEY REFERENCES messages ON DELETE CASCADE,
    raw BLOB NOT NULL, body BLOB NOT NULL
);
CREATE INDEX ready ON messages (queue) WHERE holder IS NULL;
CREATE INDEX held ON messages (holder, queue) WHERE holder IS NOT NULL
"""
