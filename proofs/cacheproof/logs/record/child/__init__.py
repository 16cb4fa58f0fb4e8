"""What runs inside the engine; nothing of it is imported here."""
