"""Released packages: conformance with the eras, planted bugs, and the records of what was seen."""
