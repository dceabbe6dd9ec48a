"""Speed-up curves from measured throughputs, by least squares."""
