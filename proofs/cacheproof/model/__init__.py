"""The vocabulary of the checkers: components, scopes, traces, findings, their messages, and the store of past runs."""
