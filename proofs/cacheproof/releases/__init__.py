"""Released packages: conformance with the eras, planted bugs, records of runs, and reproductions."""
