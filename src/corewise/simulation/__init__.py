"""Random answers: paths of the system under a policy, and how sure they make us."""
