"""Results as tables, plots, figures and JSON. Computes nothing."""
