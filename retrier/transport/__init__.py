"""The way to the broker. The only broker code: nothing else imports Kombu."""
