"""Value function approximation: a value function of few numbers, and the policy greedy for it."""
