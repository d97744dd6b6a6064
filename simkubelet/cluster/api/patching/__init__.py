"""Patches, server-side apply and managed fields."""
