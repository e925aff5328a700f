"""MixNet's published figures made anew."""
