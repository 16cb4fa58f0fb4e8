"""Runs inside the environment of the release: knows nothing of ours but what drives vLLM there."""
