"""The cache that an installed engine really builds, beside the prediction. Only functions import torch."""
