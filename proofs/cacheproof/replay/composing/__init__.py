"""Loads drawn from published distributions. A composed load is no recording, and whatever shows it says so."""
