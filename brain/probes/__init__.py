"""What the configured models were measured to do, against what the configuration says."""
