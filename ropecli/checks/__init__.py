"""Laws and verdicts: an implementation against the independent reference."""
