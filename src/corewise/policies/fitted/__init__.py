"""A value function of few numbers, and the policy that is best against it."""
