"""Events as typed values: emitted where they happen, logged and counted by subscribers."""
