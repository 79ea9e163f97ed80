"""The model: everything that may happen to the engine, in any order, against a simple account.

look.py       what the database says of each message, read after every transaction
account.py    what must be true of each message, kept by the model itself
following.py  which changes each transaction of the processor may make
sends.py      what the broker took, and how often each retry may be there
requests.py   what was asked for, and what an operation owes for it
databases.py  an empty one for each example, on SQLite and on PostgreSQL
world.py      database, broker, processor and ingestion, and what may befall them
deeds.py      what people, consumers and faults do, at any moment
far_side.py   consumers: messages that fail, fail again and are confirmed
people.py     retries, message actions and redirects
policy.py     when messages are retried by themselves
deciding.py   rules about that
many.py       acts on many messages, worked off chunk by chunk
machine.py    the rules and invariants
"""
