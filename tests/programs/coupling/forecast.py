"""A model that goes on, 100 times, from what the filter made of its forecast."""
import numpy as np

state = np.zeros(200_000)
for cycle in range(100):
    state += 1.0  # the model's step
    np.save("background.npy", state)
    state = np.load("analysis.npy")
print(f"after 100 cycles: {state[0]:.6f} {state[-1]:.6f}")
