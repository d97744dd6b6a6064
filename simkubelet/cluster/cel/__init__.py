"""Expressions in CEL: what they may cost at most, what they are for a device, and what that costs."""
