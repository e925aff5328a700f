"""MixNet's published figures made anew, and the predictions that its circuits are set for."""
