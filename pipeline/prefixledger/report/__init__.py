"""Draws the report: from the marts to one page, its JSON twin and its tables; see ``stage``."""
