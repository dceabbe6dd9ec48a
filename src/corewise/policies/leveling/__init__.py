"""The water level of a policy that is one, compiled."""
