"""What operators do with a region's controller from a terminal: ask it, and show what it says."""

from __future__ import annotations
