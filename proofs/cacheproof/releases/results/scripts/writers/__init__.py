"""One module for each component of which scripts can be written, with its `WRITER`."""
