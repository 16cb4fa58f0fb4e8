"""Scripts that the Python of an engine's environment runs. They import nothing of ours."""
