"""Why to believe it: checkers, targets and the oracle, all derived from the specification."""
