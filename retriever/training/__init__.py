"""Fine-tuning encoders: training rows, losses, adapters and the loop that ties them together."""
