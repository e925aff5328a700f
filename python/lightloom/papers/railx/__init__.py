"""RailX, figure by figure."""
