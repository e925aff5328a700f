"""Published figures, made anew."""
