"""The transports: all code that talks to a broker. Nothing outside imports Kombu."""
