"""Work of a released vLLM, measured. Imports the standard library, the driver and the release."""
