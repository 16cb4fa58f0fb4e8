"""Helpers of every layer that know no component: errors, limits, files, interruptions, progress, plug-ins."""
