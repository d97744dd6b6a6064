"""Campaigns: random stories, played by the thousand, and the smallest story of each failure."""
