"""Exact references, by closed form and by HiGHS: for tests and reports, never on a hot path."""
