"""SWOT, figure by figure."""
