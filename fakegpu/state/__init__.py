"""The state that the fake library reads: the layout of the segment, and how it is read and written."""
