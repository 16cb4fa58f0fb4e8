"""The vocabulary of the checkers: components, scopes, traces, findings, and the messages that carry them."""
