"""What arrives: traces of requests, synthetic arrivals, and the tokens they would hold."""
