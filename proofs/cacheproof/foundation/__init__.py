"""What every layer uses and no component knows: errors, limits, files, the store of past runs, progress."""
