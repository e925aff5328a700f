"""RailS, figure by figure."""
