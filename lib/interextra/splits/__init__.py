"""Splits of queries for training and test: ReSTrain, ReSTTest and leave-one-out shifts."""
