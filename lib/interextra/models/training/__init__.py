"""Training of neural models: pairs, batches, losses and the trainer; pretraining."""
