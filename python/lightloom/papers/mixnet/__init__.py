"""MixNet, figure by figure."""
