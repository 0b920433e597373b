"""The training loop, and what it computes with: optimizer, schedule, moving average, runtime."""
