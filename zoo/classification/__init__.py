"""Reserved: see the matching issue; no public name lives here yet."""
